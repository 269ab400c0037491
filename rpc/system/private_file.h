#pragma once

#include <string>

#include "tendril/rpc/system/unique_fd.h"

namespace tendril::rpc::detail {

/// Opens a file for reading. Throws UsageError, whose text begins with `name`.
UniqueFd open_to_read(const std::string& path, const std::string& name);

/// Throws UsageError, whose text begins with `name`, unless the open file is a regular file that belongs to this user
/// or to root, and other users have no permissions for it.
void check_private(int file, const std::string& name);

}  // namespace tendril::rpc::detail
