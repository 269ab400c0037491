#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tendril/rpc/members.h"
#include "tendril/rpc/wire/message.h"

/// What rank 0 and the other workers of a group say to each other (rendezvous.h), in messages of kind `group`.
namespace tendril::rpc {

inline constexpr std::size_t kMaxContributionBytes = 1 << 20;  ///< of one worker to one gathering
inline constexpr std::size_t kMaxIntroductionBytes = 64 << 10;

enum class RendezvousKind : uint8_t {
  // a worker's
  join = 1,        ///< parts[0]: how it introduces itself to the others (introduction.h), timeout_ms
  contribute = 2,  ///< question, text (the phase), parts[0], timeout_ms, attendance, ranks, epoch
  fail = 3,        ///< text: why this worker cannot go on
  leave = 4,       ///< its session is about to end as it should
  lost_peer = 5,   ///< ranks[0]: the peer whose session with this worker has ended, text: why. Rank 0 logs it.
  // the rendezvous's
  welcome = 16,       ///< epoch, members (all, by rank)
  gathered = 17,      ///< question, parts (by rank; none where all are empty)
  refused = 18,       ///< text, failure: the group has failed, or this worker is out of it
  not_gathered = 19,  ///< question, text, failure: that gathering has failed
  changed = 20,       ///< epoch, members (those that have changed, each as it is now)
};

/// What kind of failure it is; which exception it becomes.
enum class GroupFailure : uint8_t { usage = 0, timeout = 1, lost = 2 };

/// Who takes part in a gathering.
enum class Attendance : uint8_t {
  named = 0,      ///< `ranks` (empty: all), and none of them has changed since `epoch`
  unchanged = 1,  ///< likewise, and the group is at `epoch` until the end
  alive = 2,      ///< whoever is alive: without those that are lost meanwhile
};

/// What rank 0 knows, and says, of a member.
struct MemberRecord {
  WorkerId rank = -1;
  MemberState state = MemberState::absent;
  uint64_t epoch = 0;             ///< of its last change
  uint64_t incarnation = 0;       ///< that is in this state
  std::string name = {};          ///< of its worker
  std::string introduction = {};  ///< of one that is alive
  std::string why = {};

  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    archive& rank& state& epoch& incarnation& name& introduction& why;
  }
};

struct RendezvousMessage {
  RendezvousKind kind = RendezvousKind::join;
  uint32_t question = 0;  ///< the asker's number for what it asks; the answer repeats it
  std::string text = {};
  GroupFailure failure = GroupFailure::usage;
  uint64_t timeout_ms = 0;  ///< how long the worker is willing to wait; 0 = for ever
  uint64_t epoch = 0;
  Attendance attendance = Attendance::named;
  std::vector<WorkerId> ranks = {};  ///< ascending
  std::vector<std::string> parts = {};
  std::vector<MemberRecord> members = {};
};

Bytes encode(const RendezvousMessage& message);
/// The same message as the answer to another question: what goes to many is encoded once.
Bytes with_question(Bytes encoded, uint32_t question);
/// Throws MessageError.
RendezvousMessage decode_rendezvous(Bytes bytes);

/// Throws the exception of this kind of failure.
[[noreturn]] void throw_group_failure(GroupFailure failure, const std::string& text);

}  // namespace tendril::rpc
