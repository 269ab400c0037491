#pragma once

#include <string>

#include "tendril/rpc/shared_key.h"

namespace tendril::rpc::detail {

/// Where SharedKey::of_this_user keeps its key: the same for all processes of a user, whatever their environment.
std::string user_key_folder();
/// The key in that folder; both are made if they are missing (by as many processes at once as like). Throws UsageError
/// for a folder or file that somebody else could read or write.
SharedKey key_in_folder(const std::string& path);

}  // namespace tendril::rpc::detail
