#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tendril/rpc/worker.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

/// The current members of a group (Group::view).
namespace tendril::rpc {

/// The known state of a worker.
enum class MemberState : uint8_t {
  absent = 0,  ///< has not joined yet; does not occur once the group has formed
  alive = 1,   ///< in the group, and either reachable or within its grace period
  left = 2,    ///< announced that it leaves, or reported why it cannot continue
  lost = 3,    ///< died, or was cut off from rank 0 for longer than the grace period
};

/// A worker and its state.
struct Member {
  WorkerInfo worker = {};                   ///< name and rank
  MemberState state = MemberState::absent;  ///< its state according to rank 0
  uint64_t epoch = 0;                       ///< epoch of its last change: it joined, left, was lost, or was restarted
  std::string why = {};                     ///< the reason that it left or was lost, if known
};

/// The members of a group as far as this worker knows. Epoch 1 begins when all have joined; each change of a member
/// begins the next epoch.
struct GroupView {
  uint64_t epoch = 0;                ///< number of the current epoch
  std::vector<Member> members = {};  ///< by rank

  /// The ranks of the members that are alive, in ascending order.
  std::vector<WorkerId> alive() const {
    std::vector<WorkerId> ranks;
    for (const Member& member : members)
      if (member.state == MemberState::alive) ranks.push_back(member.worker.id);
    return ranks;
  }
};

}  // namespace tendril::rpc

TENDRIL_API_END
