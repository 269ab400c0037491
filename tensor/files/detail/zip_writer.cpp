#include <algorithm>
#include <array>

#include "tendril/tensor/files/detail/zip.h"
#include "tendril/tensor/files/detail/zip_format.h"

namespace tendril::files::detail {

using namespace zip;

namespace {

constexpr uint64_t kMemberAlignment = 64;
constexpr uint16_t kVersion64 = 45;        // of the format: the first with 64-bit sizes
constexpr uint16_t kUtf8 = 1 << 11;        // of names
constexpr uint32_t kNoTime = 0x0021'0000;  // 1980-01-01 00:00, as what was written must not depend on when

uint32_t small(uint64_t value) { return value < kLarge ? static_cast<uint32_t>(value) : kLarge; }

/// Eight bytes at a time: table k holds what a byte becomes with k zeros behind it.
constexpr auto kTables = [] {
  std::array<std::array<uint32_t, 256>, 8> tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xedb88320u : 0u);
    tables[0][byte] = crc;
  }
  for (std::size_t k = 1; k < 8; ++k) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      tables[k][byte] = (tables[k - 1][byte] >> 8) ^ tables[0][tables[k - 1][byte] & 0xff];
    }
  }
  return tables;
}();

}  // namespace

uint32_t crc32(std::span<const std::byte> bytes, uint32_t crc) {
  crc = ~crc;
  while (bytes.size() >= 8) {
    uint64_t next;
    std::memcpy(&next, bytes.data(), sizeof next);
    next ^= crc;
    crc = 0;
    for (std::size_t k = 0; k < 8; ++k) crc ^= kTables[7 - k][(next >> (8 * k)) & 0xff];
    bytes = bytes.subspan(8);
  }
  for (const std::byte byte : bytes) crc = (crc >> 8) ^ kTables[0][(crc ^ static_cast<uint32_t>(byte)) & 0xff];
  return ~crc;
}

void ZipWriter::add(const std::string& name, std::span<const std::byte> head, std::span<const std::byte> body) {
  const Written member{name, out_.written(), head.size() + body.size(), crc32(body, crc32(head))};
  std::string extra;
  append(extra, kExtra64);
  append(extra, uint16_t{16});
  append(extra, member.size);
  append(extra, member.size);
  const uint64_t begin = member.header + kLocalBytes + name.size() + extra.size() + 4;
  const auto fill = static_cast<uint16_t>((kMemberAlignment - begin % kMemberAlignment) % kMemberAlignment);
  append(extra, kExtraFill);
  append(extra, fill);
  extra.append(fill, '\0');
  std::string header;
  append(header, kLocal);
  append(header, kVersion64);
  append(header, kUtf8);
  append(header, uint16_t{0});  // stored
  append(header, kNoTime);
  append(header, member.crc);
  append(header, kLarge);
  append(header, kLarge);
  append(header, static_cast<uint16_t>(name.size()));
  append(header, static_cast<uint16_t>(extra.size()));
  out_.write(header + name + extra);
  out_.write(head);
  out_.write(body);
  written_.push_back(member);
}

void ZipWriter::finish() {
  const uint64_t begin = out_.written();
  for (const Written& member : written_) {
    std::string extra;
    append(extra, kExtra64);
    append(extra, uint16_t{24});
    append(extra, member.size);
    append(extra, member.size);
    append(extra, member.header);
    std::string entry;
    append(entry, kCentral);
    append(entry, kVersion64);
    append(entry, kVersion64);
    append(entry, kUtf8);
    append(entry, uint16_t{0});
    append(entry, kNoTime);
    append(entry, member.crc);
    append(entry, kLarge);
    append(entry, kLarge);
    append(entry, static_cast<uint16_t>(member.name.size()));
    append(entry, static_cast<uint16_t>(extra.size()));
    append(entry, uint16_t{0});  // comment
    append(entry, uint16_t{0});  // part
    append(entry, uint16_t{0});
    append(entry, uint32_t{0});  // attributes
    append(entry, kLarge);
    out_.write(entry + member.name + extra);
  }
  const uint64_t end = out_.written(), count = written_.size();
  std::string tail;
  append(tail, kEnd64);
  append(tail, kEnd64Bytes - 12);
  append(tail, kVersion64);
  append(tail, kVersion64);
  append(tail, uint64_t{0});  // this part and that of the directory
  append(tail, count);
  append(tail, count);
  append(tail, end - begin);
  append(tail, begin);
  append(tail, kLocator64);
  append(tail, uint32_t{0});
  append(tail, end);
  append(tail, uint32_t{1});
  append(tail, kEnd);
  append(tail, uint32_t{0});
  const auto few = static_cast<uint16_t>(std::min<uint64_t>(count, 0xffff));
  append(tail, few);
  append(tail, few);
  append(tail, small(end - begin));
  append(tail, small(begin));
  append(tail, uint16_t{0});  // comment
  out_.write(tail);
}

}  // namespace tendril::files::detail
