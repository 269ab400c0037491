// Keys in files: those that users create for a group, and the one that each user has on a host.

#include <fcntl.h>
#include <openssl/crypto.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <mutex>
#include <string>
#include <utility>

#include "tendril/rpc/connect/key_folder.h"
#include "tendril/rpc/error.h"
#include "tendril/rpc/shared_key.h"
#include "tendril/rpc/system/mutex.h"
#include "tendril/rpc/system/private_file.h"
#include "tendril/rpc/system/system_failure.h"
#include "tendril/rpc/system/unique_fd.h"
#include "tendril/rpc/transport/sockets.h"

namespace tendril::rpc {

namespace {

using detail::last_error;
using detail::UniqueFd;

/// A buffer whose destructor overwrites its contents.
struct KeyBuffer {
  std::array<std::byte, SharedKey::kMaxBytes + 1> bytes;
  KeyBuffer() = default;
  ~KeyBuffer() { OPENSSL_cleanse(bytes.data(), bytes.size()); }
  KeyBuffer(const KeyBuffer&) = delete;
  KeyBuffer& operator=(const KeyBuffer&) = delete;
};

/// Checks and reads an open file. Error texts begin with `name`.
SharedKey read_key(int file, const std::string& name) {
  detail::check_private(file, name);
  KeyBuffer buffer;
  std::size_t size = 0;
  while (size < buffer.bytes.size()) {
    const ssize_t n = ::read(file, buffer.bytes.data() + size, buffer.bytes.size() - size);
    if (n < 0 && errno == EINTR) continue;
    TENDRIL_CHECK_AS(UsageError, n >= 0, name, " cannot be read: ", last_error());
    if (n == 0) break;
    size += static_cast<std::size_t>(n);
  }
  return SharedKey(std::span(buffer.bytes).first(size), name);
}

/// The key may exist, but no descriptor is left to read it.
class NoDescriptor : public UsageError {
 public:
  using UsageError::UsageError;
};

/// Throws NoDescriptor if a file could not be opened for lack of descriptors.
void check_descriptors(const std::string& what) {
  if (errno == EMFILE || errno == ENFILE) throw NoDescriptor(what + " cannot be opened: " + last_error());
}

/// Opens the folder, and creates it if it is missing. It must belong to this user, and be closed to others.
UniqueFd open_key_folder(const std::string& path) {
  TENDRIL_CHECK_AS(UsageError, ::mkdir(path.c_str(), 0700) == 0 || errno == EEXIST, "cannot create the folder ", path,
                   " for this user's key: ", last_error(), "; give a key file (TENDRIL_KEY_FILE)");
  UniqueFd folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!folder) check_descriptors("the folder " + path + " for this user's key");
  struct stat info {};
  const bool known = ::lstat(path.c_str(), &info) == 0;
  // Checked separately for a clear error: only that user and root can remove the folder from /tmp.
  TENDRIL_CHECK_AS(UsageError, !known || info.st_uid == ::geteuid(), "the folder ", path,
                   " for this user's key belongs to another user (uid ", info.st_uid,
                   "); give a key file (TENDRIL_KEY_FILE)");
  TENDRIL_CHECK_AS(UsageError,
                   folder && ::fstat(folder.get(), &info) == 0 && info.st_uid == ::geteuid() && !(info.st_mode & 077),
                   "the folder ", path,
                   " for this user's key must belong to this user alone (mode 0700); give a key file "
                   "(TENDRIL_KEY_FILE)");
  return folder;
}

/// Writes a new key to a temporary file and links it to its name, so that no process reads an incomplete key. The first
/// process wins.
void make_user_key(int folder, const std::string& path) {
  const std::string temporary = "new-" + std::to_string(::getpid()) + "-" + std::to_string(::gettid());
  ::unlinkat(folder, temporary.c_str(), 0);  // left by a killed process with the same id
  const UniqueFd file(::openat(folder, temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  TENDRIL_CHECK_AS(UsageError, file, "cannot create this user's key in ", path, ": ", last_error());
  const SharedKey key = SharedKey::random();
  const bool written = ::write(file.get(), key.bytes().data(), key.bytes().size()) == ssize_t(key.bytes().size());
  const bool linked = written && (::linkat(folder, temporary.c_str(), folder, "key", 0) == 0 || errno == EEXIST);
  const std::string why = last_error();
  ::unlinkat(folder, temporary.c_str(), 0);
  TENDRIL_CHECK_AS(UsageError, linked, "cannot write this user's key in ", path, ": ", why);
}

}  // namespace

SharedKey SharedKey::from_file(const std::string& path) {
  const std::string name = "the key file '" + path + "'";
  const UniqueFd file = detail::open_to_read(path, name);
  return read_key(file.get(), name);
}

namespace detail {

std::string user_key_folder() {
  const std::string uid = std::to_string(::geteuid());
  // XDG_RUNTIME_DIR is not used: a worker started without it must find the same key.
  const std::string run = "/run/user/" + uid;
  struct stat info {};
  if (::lstat(run.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == ::geteuid() &&
      (info.st_mode & 077) == 0 && ::access(run.c_str(), W_OK | X_OK) == 0) {
    return run + "/tendril";
  }
  return "/tmp/tendril-uid-" + uid;
}

SharedKey key_in_folder(const std::string& path) {
  const UniqueFd folder = open_key_folder(path);
  const auto open_key = [&] { return UniqueFd(::openat(folder.get(), "key", O_RDONLY | O_NOFOLLOW | O_CLOEXEC)); };
  UniqueFd file = open_key();
  if (!file && errno == ENOENT) {
    make_user_key(folder.get(), path);
    file = open_key();
  }
  if (!file) check_descriptors("this user's key " + path + "/key");
  TENDRIL_CHECK_AS(UsageError, file, "this user's key ", path, "/key cannot be opened: ", last_error());
  return read_key(file.get(), "this user's key '" + path + "/key'");
}

}  // namespace detail

/// The file is read again each time, because a cleanup of /tmp may have removed it. If the process has no descriptor
/// left for that, the previous key is used.
SharedKey SharedKey::of_this_user() {
  static detail::Mutex mutex;
  static auto* const last = new SharedKey();  // never destroyed: threads may still use it at exit
  try {
    SharedKey key = detail::key_in_folder(detail::user_key_folder());
    const std::lock_guard lock(mutex);
    return *last = std::move(key);
  } catch (const NoDescriptor&) {
    const std::lock_guard lock(mutex);
    if (!*last) throw;
    return *last;
  }
}

}  // namespace tendril::rpc
