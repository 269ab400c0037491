#pragma once

#include <string>

#include "tendril/rpc/shared_key.h"

namespace tendril::rpc::detail {

/// The folder of the key of SharedKey::of_this_user: the same for all processes of a user, whatever their environment.
std::string user_key_folder();
/// Returns the key in that folder. Creates both if they are missing; several processes may do so at once. Throws
/// UsageError for a folder or file that another user could read or write.
SharedKey key_in_folder(const std::string& path);

}  // namespace tendril::rpc::detail
