#include "tendril/rpc/system/private_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>

#include "tendril/rpc/error.h"
#include "tendril/rpc/system/system_failure.h"

namespace tendril::rpc::detail {

namespace {

constexpr char kPrefix[] = "tendril-";
constexpr std::size_t kNameLength = sizeof kPrefix - 1 + 6;
constexpr time_t kYoung = 600;  // seconds

bool is_usable(const char* base) {
  struct stat info {};
  // Long names do not fit a socket's address (108 bytes).
  return base != nullptr && *base == '/' && std::strlen(base) < 60 && ::stat(base, &info) == 0 &&
         ::access(base, W_OK | X_OK) == 0;
}

UniqueFd open_folder(int base, const char* name) {
  return UniqueFd(::openat(base, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

}  // namespace

std::string PrivateFolder::default_base() {
  if (const char* base = std::getenv("XDG_RUNTIME_DIR"); is_usable(base)) return base;
  const char* base = std::getenv("TMPDIR");
  return base != nullptr && *base == '/' && std::strlen(base) < 60 ? base : "/tmp";
}

PrivateFolder::PrivateFolder(const std::string& base) : path_(base + "/" + kPrefix + "XXXXXX") {
  if (!::mkdtemp(path_.data())) throw UsageError("cannot create the socket folder " + path_ + ": " + last_error());
  lock_ = open_folder(AT_FDCWD, path_.c_str());
  if (!lock_ || ::flock(lock_.get(), LOCK_EX | LOCK_NB) != 0) {
    const std::string why = last_error();
    ::rmdir(path_.c_str());
    throw UsageError("cannot lock the socket folder " + path_ + ": " + why);
  }
}

PrivateFolder::~PrivateFolder() {
  ::unlink(socket_path().c_str());
  ::rmdir(path_.c_str());
}

void sweep_dead_folders(const std::string& base) noexcept {
  const UniqueFd base_fd = open_folder(AT_FDCWD, base.c_str());
  DIR* const raw = base_fd ? ::opendir(base.c_str()) : nullptr;
  if (raw == nullptr) return;
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(raw, &::closedir);
  while (const dirent* entry = ::readdir(raw)) {
    if (std::strlen(entry->d_name) != kNameLength || std::strncmp(entry->d_name, kPrefix, sizeof kPrefix - 1) != 0)
      continue;
    const UniqueFd folder = open_folder(base_fd.get(), entry->d_name);
    struct stat info {};
    if (!folder || ::fstat(folder.get(), &info) != 0 || info.st_uid != ::geteuid() || (info.st_mode & 0777) != 0700)
      continue;
    // If the folder contains a socket, it was locked before.
    const bool used = ::faccessat(folder.get(), "socket", F_OK, AT_SYMLINK_NOFOLLOW) == 0;
    if ((!used && std::time(nullptr) - info.st_mtime < kYoung) || ::flock(folder.get(), LOCK_EX | LOCK_NB) != 0)
      continue;
    ::unlinkat(folder.get(), "socket", 0);
    ::unlinkat(base_fd.get(), entry->d_name, AT_REMOVEDIR);  // fails if the folder contains anything else
  }
}

}  // namespace tendril::rpc::detail
