#pragma once

#include <cstdint>

#include "tendril/rpc/group.h"
#include "tendril/rpc/shared_key.h"

namespace tendril::rpc::detail {

/// The key that somebody gave this group, in this order: the options' (the key itself or a file's), that of spawn() for
/// the group whose port it chose, the file that TENDRIL_KEY_FILE names. Empty: nobody did. Throws UsageError.
SharedKey given_key(const InitOptions& options, uint16_t master_port);

}  // namespace tendril::rpc::detail
