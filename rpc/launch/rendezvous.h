#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tendril/rpc/call_context.h"
#include "tendril/rpc/launch/gatherings.h"
#include "tendril/rpc/launch/rendezvous_message.h"
#include "tendril/rpc/launch/roster.h"
#include "tendril/rpc/worker.h"

/// How the workers of a group meet: each has a session with rank 0's agent, joins over it, and then takes part in
/// *gatherings* (gatherings.h): barriers, and what joining and leaving are made of (group.h). Rank 0 keeps the *roster*
/// of those that come and go, and tells all of each change (docs/decisions/0015-members-come-and-go.md). What is said
/// goes as messages of kind `group`, which sessions neither lose nor repeat.
///
/// Until all have met for the first time, and where rank 0 cannot go on, what goes wrong at one worker ends the group
/// for all: each is told once, with the name of whom it is about. Who cannot be a worker of this group (another world
/// size, a rank or name that is taken, a name that is none) is told so before it has a session, and forgotten. If that
/// leaves a rank without its worker, the deadline says so, and who was refused why.
/// Nothing here does I/O or asks for the time.
namespace tendril::rpc {

/// Rank 0's side. Workers are known by their ranks, and their sessions by their incarnations. Not thread-safe.
class RendezvousServer {
 public:
  struct Action {
    WorkerId to = 0;
    Bytes bytes;  ///< a message
  };
  struct Refusal {
    std::string text;
    GroupFailure failure = GroupFailure::usage;
    bool try_later = false;  ///< there is a group here already
  };

  /// `self` is rank 0, which is connected from the start.
  RendezvousServer(int world_size, std::string self, uint64_t incarnation = 0);

  /// Why this worker cannot join, if it cannot.
  std::optional<Refusal> admit(const WorkerInfo& who, int world_size);
  void connected(const WorkerInfo& who, uint64_t incarnation, Clock::time_point now);  ///< admitted, and has a session
  void received(WorkerId from, uint64_t incarnation, const RendezvousMessage& message, Clock::time_point now);
  /// Its session has ended, for the reason `why`.
  void closed(WorkerId from, uint64_t incarnation, Clock::time_point now, const std::string& why = {});
  void on_timer(Clock::time_point now);
  /// Somebody was refused; named where workers are missing.
  void note_refused(const std::string& why);
  /// Ends the group: rank 0 itself cannot go on.
  void fail(GroupFailure kind, std::string text);
  /// Somebody who could join says why it will not. Ends a group that is not complete.
  void joiner_failed(const WorkerInfo& who, const std::string& why);
  Clock::time_point deadline() const;  ///< when `on_timer` has something to do
  std::vector<Action> take_actions();  ///< what is to be sent now, in order

  bool awaits(WorkerId rank) const;  ///< a sign of life: it is a member, or waits for the others to join
  bool complete() const noexcept { return roster_.epoch() > 0; }  ///< all have joined
  bool failed() const noexcept { return failure_.has_value(); }
  bool all_told() const noexcept;        ///< the group has not failed, or every rank knows that it has
  bool all_left() const noexcept;        ///< no session with another rank is left
  std::string describe_missing() const;  ///< the ranks that have not joined, the workers lost, and those refused
  const Roster& roster() const noexcept { return roster_; }

 private:
  /// A rank's session, of whatever incarnation.
  struct Slot {
    bool connected = false, told = false;
    std::string lost;  // before all had joined: the worker that had this rank, and why its session ended
    uint64_t incarnation = 0;
    Clock::time_point deadline = Clock::time_point::max();  // until when it waits for the others to join,
    std::chrono::milliseconds patience{0};                  // which was so long when it began
  };

  Slot& slot(WorkerId rank) { return slots_[static_cast<std::size_t>(rank)]; }
  std::optional<Refusal> admit_first(const WorkerInfo& who, int world_size);
  std::optional<Refusal> admit_again(const WorkerInfo& who, int world_size);
  void join(WorkerId rank, const RendezvousMessage& message, Clock::time_point now);
  void join_again(WorkerId rank, const RendezvousMessage& message, Clock::time_point now);
  void contribute(WorkerId rank, const RendezvousMessage& message, Clock::time_point now);
  void gone(WorkerId rank, MemberState how, const std::string& why, Clock::time_point now);
  void after_gatherings();
  void tell_changes(Clock::time_point now, WorkerId but_for = -1);
  void refuse(WorkerId rank, GroupFailure kind, const std::string& text);
  bool takes_nobody() const;
  Bytes welcome() const;

  Roster roster_;
  Gatherings gatherings_{roster_};
  std::vector<Slot> slots_;    // by rank
  bool leaving_ = false;       // rank 0 is
  std::set<WorkerId> untold_;  // whose changes are to be told
  Clock::time_point told_at_ = Clock::time_point::min(), tell_at_ = Clock::time_point::max();
  std::vector<std::string> refusals_;  // why somebody was refused while the group was awaited; a few
  std::optional<Gatherings::Failure> failure_;
  std::vector<Action> actions_;
};

/// Why this cannot be a worker's name; empty if it can.
std::string name_problem(const std::string& name);

}  // namespace tendril::rpc
