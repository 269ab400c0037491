#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::files::detail {

/// A file that appears under its name when it is whole and on the disk, or not at all: whoever opens the name sees what
/// was there before or all of the new file, also after a crash of the process or of the machine.
///
/// Until `commit` it has no name where the file system allows that (O_TMPFILE), so that a killed process leaves
/// nothing; elsewhere it is "NAME.tendril-XXXXXX" in the same folder. A file that is replaced hands on its permissions,
/// and its owner and group where this process may do that; links stay, what they lead to is replaced. All errors are
/// Error, begin with `op`, and name the file. Thread-safety: one thread at a time.
class AtomicFile {
 public:
  /// `expected_bytes` are set aside first, so that a disk without room for them is known before work is done.
  AtomicFile(std::string op, const std::filesystem::path& target, uint64_t expected_bytes = 0);
  ~AtomicFile();  ///< without a commit, nothing is left
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text.data(), text.size()))); }
  uint64_t written() const noexcept { return written_; }
  /// Brings the bytes to the disk, gives the file its name in place of what had it, and brings that to the disk too.
  void commit();

 private:
  [[noreturn]] void fail(const char* what) const;  ///< with errno
  void give_temporary_name();

  const std::string op_;
  std::filesystem::path target_;
  std::filesystem::path temporary_;  ///< empty while there is none
  int descriptor_ = -1;
  uint64_t written_ = 0;
};

}  // namespace tendril::files::detail

TENDRIL_API_END
