#include "tendril/tensor/files/detail/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <random>
#include <utility>

#include "tendril/tensor/error.h"

namespace tendril::files::detail {
namespace {

constexpr mode_t kMode = 0666;  // less the process's umask, as for any new file

std::filesystem::path folder_of(const std::filesystem::path& file) {
  return file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
}

std::filesystem::path temporary_beside(const std::filesystem::path& file) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::random_device random;
  std::string ending = ".tendril-";
  for (int i = 0; i < 12; ++i) ending += kDigits[random() % 16];
  // A name may be as long as the file system allows: its beginning says enough.
  constexpr std::size_t kMostOfName = 200;
  return folder_of(file) / (file.filename().string().substr(0, kMostOfName) + ending);
}

/// The file that links lead to, which need not be there.
std::filesystem::path end_of_links(const std::string& op, const std::filesystem::path& given) {
  std::filesystem::path file = given;
  std::error_code failed;
  for (int links = 0; std::filesystem::is_symlink(file, failed); ++links) {
    TENDRIL_CHECK(links < 40, op, ": ", given, " is a link that leads in a circle");
    const std::filesystem::path led = std::filesystem::read_symlink(file, failed);
    TENDRIL_CHECK(!failed, op, ": cannot read the link ", file, ": ", failed.message());
    file = led.is_absolute() ? led : folder_of(file) / led;
  }
  return file;
}

/// What replaces a file is for the same eyes.
void take_permissions(int descriptor, const struct stat& from) {
  struct stat own {};
  if (::fstat(descriptor, &own) != 0) return;
  mode_t mode = from.st_mode & 07777;
  const bool same_group = own.st_gid == from.st_gid || ::fchown(descriptor, static_cast<uid_t>(-1), from.st_gid) == 0;
  if (!same_group) mode &= ~static_cast<mode_t>(070);  // it would be another group's
  if (own.st_uid != from.st_uid && ::fchown(descriptor, from.st_uid, static_cast<gid_t>(-1)) != 0) mode &= 0777;
  (void)::fchmod(descriptor, mode);  // where the file system has none, there are none to keep
}

}  // namespace

AtomicFile::AtomicFile(std::string op, const std::filesystem::path& target, uint64_t expected_bytes)
    : op_(std::move(op)), target_(end_of_links(op_, target)) {  // a link stays one: what it leads to is replaced
  struct stat existing {};
  const bool exists = ::stat(target_.c_str(), &existing) == 0;
  if (exists && !S_ISREG(existing.st_mode)) {
    tendril::detail::raise<Error>(op_, ": ", target_, " is there and no regular file");
  }
  // What a directory entry says of a file system without such files differs: any failure leads to a named one.
  // A nameless one gets its name by way of /proc, which a sandbox may lack.
  if (::access("/proc/self/fd", X_OK) == 0) {
    descriptor_ = ::open(folder_of(target_).c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, kMode);
  }
  if (descriptor_ < 0) {
    temporary_ = temporary_beside(target_);
    descriptor_ = ::open(temporary_.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, kMode);
    if (descriptor_ < 0) {
      temporary_.clear();
      fail("cannot create a file beside");
    }
  }
  if (exists) take_permissions(descriptor_, existing);
  if (expected_bytes > 0 && ::fallocate(descriptor_, 0, 0, static_cast<off_t>(expected_bytes)) != 0 &&
      (errno == ENOSPC || errno == EFBIG || errno == EDQUOT)) {
    const int reason = errno;
    ::close(descriptor_);
    if (!temporary_.empty()) ::unlink(temporary_.c_str());
    errno = reason;
    fail(("no room for the " + std::to_string(expected_bytes) + " bytes of").c_str());
  }
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::fail(const char* what) const {
  const int reason = errno;
  tendril::detail::raise<Error>(op_, ": ", what, " ", target_, ": ", std::strerror(reason),
                                "; what was there before is unchanged");
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(descriptor_, bytes.data(), std::min<std::size_t>(bytes.size(), 1 << 30));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail("cannot write");
    written_ += static_cast<uint64_t>(count);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
}

void AtomicFile::give_temporary_name() {
  // linkat replaces nothing, so the name is a new one for the moment until the rename.
  const std::filesystem::path name = temporary_beside(target_);
  const std::string nameless = "/proc/self/fd/" + std::to_string(descriptor_);
  if (::linkat(AT_FDCWD, nameless.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) != 0) {
    fail("cannot give a name to");
  }
  temporary_ = name;
}

void AtomicFile::commit() {
  if (::fsync(descriptor_) != 0) fail("cannot bring to the disk");
  if (temporary_.empty()) give_temporary_name();
  const int closed = ::close(std::exchange(descriptor_, -1));
  if (closed != 0 && errno != EINTR) fail("cannot close");
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) fail("cannot rename to");
  temporary_.clear();
  const int folder = ::open(folder_of(target_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return;  // a folder that may be written to but not read: the file is whole all the same
  ::fsync(folder);
  ::close(folder);
}

}  // namespace tendril::files::detail
