#pragma once

#include <string>

#include "tendril/rpc/launch/group_member.h"

namespace tendril::rpc::detail {

/// Joins the group that meets at the settings' address: as its rank 0, which opens the rendezvous there, or as another,
/// which finds it. Returns when every worker can call every other; fails at all of them with what Group's constructor
/// throws. `advice`: what this launcher's user can do about a master that is not found. Of a failed attempt `member`
/// keeps what had been made.
void join(GroupMember& member, const GroupSettings& settings, const InitOptions& options, const std::string& advice);

}  // namespace tendril::rpc::detail
