#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tendril/rpc/worker.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

/// Who belongs to a group at present (Group::view).
namespace tendril::rpc {

/// What is known of a worker.
enum class MemberState : uint8_t {
  absent = 0,  ///< has not joined yet: none of a group that has met
  alive = 1,   ///< in the group, and reachable or within its grace period
  left = 2,    ///< it said so; or it said why it cannot go on
  lost = 3,    ///< it died, or was cut off from rank 0 for longer than the grace period
};

/// A worker, and whether it is there.
struct Member {
  WorkerInfo worker = {};                   ///< name and rank
  MemberState state = MemberState::absent;  ///< what rank 0 knows of it
  uint64_t epoch = 0;                       ///< of its last change: it joined, left, was lost, or has been started anew
  std::string why = {};                     ///< it left or was lost, where that is known
};

/// The members of a group as this worker has heard of them. Epoch 1: all have joined; each change is the next epoch.
struct GroupView {
  uint64_t epoch = 0;                ///< counts the changes
  std::vector<Member> members = {};  ///< by rank

  /// Those that are there.
  std::vector<WorkerId> alive() const {
    std::vector<WorkerId> ranks;
    for (const Member& member : members)
      if (member.state == MemberState::alive) ranks.push_back(member.worker.id);
    return ranks;
  }
};

}  // namespace tendril::rpc

TENDRIL_API_END
