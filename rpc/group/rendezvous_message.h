#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tendril/rpc/members.h"
#include "tendril/rpc/wire/message.h"

/// The messages between rank 0 and the other workers of a group (rendezvous.h), sent as messages of kind `group`.
namespace tendril::rpc {

inline constexpr std::size_t kMaxContributionBytes = 1 << 20;  ///< of one worker, in one gathering
inline constexpr std::size_t kMaxIntroductionBytes = 64 << 10;

enum class RendezvousKind : uint8_t {
  // sent by a worker
  join = 1,        ///< parts[0]: its introduction to the other workers (introduction.h); timeout_ms
  contribute = 2,  ///< question, text (the phase), parts[0], timeout_ms, attendance, ranks, epoch
  fail = 3,        ///< text: why this worker cannot continue
  leave = 4,       ///< its session is about to end as intended
  lost_peer = 5,   ///< ranks[0]: the peer whose session with this worker has ended; text: why. Rank 0 logs it.
  // sent by the rendezvous
  welcome = 16,       ///< epoch, members (all, by rank)
  gathered = 17,      ///< question, parts (by rank; none if all are empty)
  refused = 18,       ///< text, failure: the group has failed, or this worker can no longer take part
  not_gathered = 19,  ///< question, text, failure: that gathering has failed
  changed = 20,       ///< epoch, members (those that have changed, in their current state)
};

/// The kind of a failure, which determines the exception that it becomes.
enum class GroupFailure : uint8_t { usage = 0, timeout = 1, lost = 2 };

/// The workers that take part in a gathering.
enum class Attendance : uint8_t {
  named = 0,      ///< `ranks` (empty: all), none of which has changed since `epoch`
  unchanged = 1,  ///< as `named`, and the group stays at `epoch` until the end
  alive = 2,      ///< all live workers; a worker that is lost meanwhile drops out
};

/// Rank 0's record of a member, in the form in which it is sent to the other workers.
struct MemberRecord {
  WorkerId rank = -1;
  MemberState state = MemberState::absent;
  uint64_t epoch = 0;             ///< of its last change
  uint64_t incarnation = 0;       ///< the incarnation that is in this state
  std::string name = {};          ///< the worker's
  std::string introduction = {};  ///< empty unless the member is alive
  std::string why = {};

  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    archive& rank& state& epoch& incarnation& name& introduction& why;
  }
};

struct RendezvousMessage {
  RendezvousKind kind = RendezvousKind::join;
  uint32_t question = 0;  ///< number chosen by the asking worker; the answer repeats it
  std::string text = {};
  GroupFailure failure = GroupFailure::usage;
  uint64_t timeout_ms = 0;  ///< how long the worker is willing to wait; 0 = no limit
  uint64_t epoch = 0;
  Attendance attendance = Attendance::named;
  std::vector<WorkerId> ranks = {};  ///< ascending
  std::vector<std::string> parts = {};
  std::vector<MemberRecord> members = {};
};

Bytes encode(const RendezvousMessage& message);
/// Returns the message with another question number, so that an answer to many workers is encoded only once.
Bytes with_question(Bytes encoded, uint32_t question);
/// Throws MessageError.
RendezvousMessage decode_rendezvous(Bytes bytes);

/// Throws the exception for this kind of failure.
[[noreturn]] void throw_group_failure(GroupFailure failure, const std::string& text);

}  // namespace tendril::rpc
