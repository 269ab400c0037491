#include <algorithm>
#include <utility>

#include "tendril/tensor/files/detail/inflate.h"
#include "tendril/tensor/files/detail/zip.h"
#include "tendril/tensor/files/detail/zip_format.h"

namespace tendril::files::detail {

using namespace zip;

namespace {

struct Directory {
  uint64_t begin, size, count;
};

/// Where the directory lies: what the record at the end of the file says, or its 64-bit form before it.
Directory find_directory(std::span<const std::byte> all, const std::string& what) {
  TENDRIL_CHECK(all.size() >= kEndBytes, what, ": has ", all.size(), " bytes, which is too short for a zip file");
  // Behind the record is a comment of up to 65535 bytes, which is nearly always empty.
  const uint64_t first = all.size() - kEndBytes, last = first - std::min<uint64_t>(first, 0xffff);
  for (uint64_t at = first + 1; at-- > last;) {
    Fields end(all.subspan(at), what);
    if (end.take<uint32_t>() != kEnd) continue;
    end.take_bytes(6);  // parts of an archive in parts, whose members would be out of place
    uint64_t count = end.take<uint16_t>(), size = end.take<uint32_t>(), begin = end.take<uint32_t>();
    if (end.take<uint16_t>() != all.size() - at - kEndBytes) continue;  // these bytes are a comment's
    if (at >= kLocator64Bytes) {
      Fields locator(all.subspan(at - kLocator64Bytes, kLocator64Bytes), what);
      if (locator.take<uint32_t>() == kLocator64) {
        locator.take<uint32_t>();
        const auto where = locator.take<uint64_t>();
        TENDRIL_CHECK(where <= all.size(), what, ": is cut short or damaged: its directory is outside of it");
        Fields end64(all.subspan(where), what);
        TENDRIL_CHECK(end64.take<uint32_t>() == kEnd64, what, ": is damaged: its 64-bit record is not where it says");
        end64.take_bytes(20);
        end64.take<uint64_t>();  // members in this part
        count = end64.take<uint64_t>();
        size = end64.take<uint64_t>();
        begin = end64.take<uint64_t>();
      }
    }
    TENDRIL_CHECK(begin <= at && size <= at - begin, what, ": is cut short or damaged: its directory is outside of it");
    return {begin, size, count};
  }
  tendril::detail::raise<Error>(what, ": is no zip file, or is cut short: it does not end with a directory");
}

/// Takes 64-bit sizes from an extra field, for those that are kLarge.
void read_extra64(std::span<const std::byte> extra, const std::string& what, uint64_t& size, uint64_t& packed,
                  uint64_t& header) {
  Fields fields(extra, what);
  while (fields.size() >= 4) {
    const auto id = fields.take<uint16_t>();
    const auto length = fields.take<uint16_t>();
    Fields field(fields.take_bytes(length), what);
    if (id != kExtra64) continue;
    for (uint64_t* value : {&size, &packed, &header}) {
      if (*value == kLarge) *value = field.take<uint64_t>();
    }
  }
}

}  // namespace

ZipReader::ZipReader(std::shared_ptr<Bytes> file, std::string what) : file_(std::move(file)), what_(std::move(what)) {
  const Directory directory = find_directory(file_->all(), what_);
  read_directory(directory.begin, directory.size, directory.count);
  check_places();
}

void ZipReader::read_directory(uint64_t begin, uint64_t size, uint64_t count) {
  TENDRIL_CHECK(count <= size / kCentralBytes, what_, ": is damaged: its directory of ", size, " bytes would have ",
                count, " members");
  Fields fields(file_->all().subspan(begin, size), what_);
  for (uint64_t i = 0; i < count; ++i) {
    TENDRIL_CHECK(fields.take<uint32_t>() == kCentral, what_, ": is damaged: member ", i, " is not in its directory");
    fields.take<uint32_t>();  // versions
    const auto flags = fields.take<uint16_t>(), method = fields.take<uint16_t>();
    fields.take<uint32_t>();  // time
    Member member{};
    member.crc = fields.take<uint32_t>();
    member.packed = fields.take<uint32_t>();
    member.size = fields.take<uint32_t>();
    const auto name_bytes = fields.take<uint16_t>(), extra_bytes = fields.take<uint16_t>(),
               comment_bytes = fields.take<uint16_t>();
    fields.take<uint64_t>();  // part, attributes
    uint64_t header = fields.take<uint32_t>();
    member.name = fields.take_text(name_bytes);
    read_extra64(fields.take_bytes(extra_bytes), what_, member.size, member.packed, header);
    fields.take_bytes(comment_bytes);
    TENDRIL_CHECK((flags & 1) == 0, what_, ": member '", member.name, "' is encrypted");
    TENDRIL_CHECK(method == 0 || method == 8, what_, ": member '", member.name, "' is compressed by method ", method,
                  ", expected none or deflate");
    member.deflated = method == 8;
    TENDRIL_CHECK(member.deflated || member.packed == member.size, what_, ": member '", member.name,
                  "' is damaged: it is not compressed, but of two sizes");
    TENDRIL_CHECK(index_.emplace(member.name, members_.size()).second, what_, ": is damaged: member '", member.name,
                  "' is there twice");
    place(member, header, begin);
    members_.push_back(std::move(member));
  }
}

void ZipReader::place(Member& member, uint64_t header, uint64_t end) const {
  TENDRIL_CHECK(header <= end, what_, ": member '", member.name, "' is outside of the file");
  Fields local(file_->all().subspan(header, end - header), what_);
  TENDRIL_CHECK(local.take<uint32_t>() == kLocal, what_, ": member '", member.name,
                "' is not where the directory says");
  local.take_bytes(22);  // the directory says it again, and has what a stream did not know yet
  const auto name_bytes = local.take<uint16_t>(), extra_bytes = local.take<uint16_t>();
  local.take_bytes(name_bytes);
  local.take_bytes(extra_bytes);
  member.begin = end - local.size();
  TENDRIL_CHECK(member.packed <= local.size(), what_, ": member '", member.name, "' is cut short: it would have ",
                member.packed, " bytes of ", local.size());
}

void ZipReader::check_places() {
  std::vector<const Member*> sorted;
  for (const Member& member : members_) {
    if (member.packed > 0) sorted.push_back(&member);
  }
  std::ranges::sort(sorted, {}, &Member::begin);
  for (std::size_t i = 1; i < sorted.size(); ++i) {
    TENDRIL_CHECK(sorted[i - 1]->begin + sorted[i - 1]->packed <= sorted[i]->begin, what_, ": members '",
                  sorted[i - 1]->name, "' and '", sorted[i]->name, "' overlap");
  }
}

const ZipReader::Member* ZipReader::find(const std::string& name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &members_[found->second];
}

ZipReader::Content ZipReader::read(const Member& member, Checksum checksum) const {
  const std::string name = what_ + ": member '" + member.name + "'";
  Content content{file_, file_->all().subspan(member.begin, member.packed)};
  if (member.deflated) {
    content.owner = Bytes::of(inflate(content.bytes, member.size, name));
    content.bytes = content.owner->all();
  }
  if (checksum == Checksum::check) {
    TENDRIL_CHECK(crc32(content.bytes) == member.crc, name, " is damaged: its checksum does not fit");
  }
  return content;
}

}  // namespace tendril::files::detail
