#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "tendril/tensor/files/detail/atomic_file.h"
#include "tendril/tensor/files/detail/bytes.h"

/// Zip archives as NumPy and PyTorch use them (PKWARE's APPNOTE 6.3; with its 64-bit sizes): stored members are read
/// where they lie, deflated ones unpacked; no encryption, no parts.
namespace tendril::files::detail {

/// The members of an archive. Nothing in it is believed that was not checked: headers lie within the file, members do
/// not overlap, names are used once. Errors begin with `what`.
class ZipReader {
 public:
  struct Member {
    std::string name;
    uint64_t begin;   ///< of its bytes in the file
    uint64_t packed;  ///< how many there are
    uint64_t size;    ///< and how many they become
    uint32_t crc;
    bool deflated;
  };
  /// A member's bytes and what keeps them.
  struct Content {
    std::shared_ptr<Bytes> owner;
    std::span<std::byte> bytes;
  };
  enum class Checksum { check, trust };

  ZipReader(std::shared_ptr<Bytes> file, std::string what);

  const std::vector<Member>& members() const noexcept { return members_; }
  const Member* find(const std::string& name) const;  ///< null if there is none
  Content read(const Member& member, Checksum checksum) const;

 private:
  void read_directory(uint64_t begin, uint64_t size, uint64_t count);
  void place(Member& member, uint64_t header, uint64_t end) const;
  void check_places();

  const std::shared_ptr<Bytes> file_;
  const std::string what_;
  std::vector<Member> members_;
  std::unordered_map<std::string, std::size_t> index_;  // by name, into members_
};

/// Writes an archive of stored members, each of which begins at a multiple of 64 bytes, so that its reader can map it.
class ZipWriter {
 public:
  explicit ZipWriter(AtomicFile& out) : out_(out) {}
  /// The member's bytes are `head` and then `body`.
  void add(const std::string& name, std::span<const std::byte> head, std::span<const std::byte> body);
  void finish();  ///< the directory; the file is still to be committed

 private:
  struct Written {
    std::string name;
    uint64_t header, size;
    uint32_t crc;
  };
  AtomicFile& out_;
  std::vector<Written> written_;
};

/// CRC-32 of IEEE 802.3, continued from `crc`.
uint32_t crc32(std::span<const std::byte> bytes, uint32_t crc = 0);

}  // namespace tendril::files::detail
