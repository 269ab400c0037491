#include "tendril/rpc/system/private_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "tendril/rpc/error.h"
#include "tendril/rpc/system/system_failure.h"

namespace tendril::rpc::detail {

UniqueFd open_to_read(const std::string& path, const std::string& name) {
  // Non-blocking: the path may name a pipe.
  UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  TENDRIL_CHECK_AS(UsageError, file, name, " cannot be opened: ", last_error());
  return file;
}

void check_private(int file, const std::string& name) {
  struct stat info {};
  TENDRIL_CHECK_AS(UsageError, ::fstat(file, &info) == 0, name, " cannot be examined: ", last_error());
  TENDRIL_CHECK_AS(UsageError, S_ISREG(info.st_mode), name, " is not a regular file");
  TENDRIL_CHECK_AS(UsageError, info.st_uid == ::geteuid() || info.st_uid == 0, name, " belongs to user ", info.st_uid,
                   ", expected this one (", ::geteuid(), ") or root");
  TENDRIL_CHECK_AS(UsageError, (info.st_mode & 077) == 0, name,
                   " can be reached by other users: its permissions must be 0600 or 0400 (chmod 600)");
}

}  // namespace tendril::rpc::detail
