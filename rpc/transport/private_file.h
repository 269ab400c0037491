#pragma once

#include <string>

#include "tendril/rpc/transport/unique_fd.h"

namespace tendril::rpc::detail {

/// Opens a file for reading. `name` begins the UsageError.
UniqueFd open_to_read(const std::string& path, const std::string& name);

/// Throws UsageError, which `name` begins, unless the open file is a regular one that belongs to this user or to root
/// and that nobody else may read or write.
void check_private(int file, const std::string& name);

}  // namespace tendril::rpc::detail
