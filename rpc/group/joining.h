#pragma once

#include <string>

#include "tendril/rpc/group/group_member.h"

namespace tendril::rpc::detail {

/// Joins the group that meets at the settings' address. Rank 0 opens the rendezvous there, and the other ranks find it.
/// Returns when every worker can call every other. If joining fails, it fails at every worker, with the errors that
/// Group's constructor throws. `advice` tells the user of this launcher how to correct a master address that is not
/// found. After a failure, `member` keeps the parts that were created.
void join(GroupMember& member, const GroupSettings& settings, const InitOptions& options, const std::string& advice);

}  // namespace tendril::rpc::detail
