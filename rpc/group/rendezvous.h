#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tendril/rpc/call_context.h"
#include "tendril/rpc/group/gatherings.h"
#include "tendril/rpc/group/rendezvous_message.h"
#include "tendril/rpc/group/roster.h"
#include "tendril/rpc/worker.h"

/// How the workers of a group meet. Each worker has a session with rank 0's agent, joins over it, and then takes part
/// in *gatherings* (gatherings.h): barriers, and the steps of joining and leaving (group.h). Rank 0 keeps the *roster*
/// of the members and sends each change to all of them (docs/decisions/0015-members-come-and-go.md). All of this uses
/// messages of kind `group`, which sessions neither lose nor repeat.
///
/// Until all workers have met for the first time, or if rank 0 cannot continue, a failure at one worker ends the group.
/// Each worker is told once, with the name of the worker that failed. A process that cannot be a worker of this group
/// (another world size, a rank or name that is taken, an invalid name) is refused before it has a session, and is then
/// forgotten. If its rank is still missing at the deadline, the error lists the refused processes and the reasons.
///
/// Nothing here does I/O or reads the clock.
namespace tendril::rpc {

/// Rank 0's side of the rendezvous. Identifies workers by their ranks, and sessions by the workers' incarnations. Not
/// thread-safe.
class RendezvousServer {
 public:
  struct Action {
    WorkerId to = 0;
    Bytes bytes;  ///< an encoded message
  };
  struct Refusal {
    std::string text;
    GroupFailure failure = GroupFailure::usage;
    bool try_later = false;  ///< there is already a group here
  };

  /// `self` is the name of rank 0, which is connected from the start.
  RendezvousServer(int world_size, std::string self, uint64_t incarnation = 0);

  /// Returns the reason why this worker cannot join, or nullopt if it can.
  std::optional<Refusal> admit(const WorkerInfo& who, int world_size);
  void connected(const WorkerInfo& who, uint64_t incarnation, Clock::time_point now);  ///< admitted, with a session
  void received(WorkerId from, uint64_t incarnation, const RendezvousMessage& message, Clock::time_point now);
  /// The session with that worker has ended because of `why`.
  void closed(WorkerId from, uint64_t incarnation, Clock::time_point now, const std::string& why = {});
  void on_timer(Clock::time_point now);
  /// Records why a process was refused. The error for missing workers includes the reason.
  void note_refused(const std::string& why);
  /// Ends the group for all workers.
  void fail(GroupFailure kind, std::string text);
  /// A worker that could join reports why it will not. This ends a group that is not complete.
  void joiner_failed(const WorkerInfo& who, const std::string& why);
  Clock::time_point deadline() const;  ///< when to call `on_timer`
  std::vector<Action> take_actions();  ///< the messages to send now, in order

  bool awaits(WorkerId rank) const;  ///< whether its silence matters: it is a member, or waits for the others to join
  bool complete() const noexcept { return roster_.epoch() > 0; }  ///< all workers have joined
  bool failed() const noexcept { return failure_.has_value(); }
  bool failure_sent_to_all() const noexcept;  ///< the group has not failed, or every rank knows that it has
  bool all_left() const noexcept;             ///< no other rank has a session
  std::string describe_missing() const;       ///< the ranks that have not joined, the workers lost, and those refused
  const Roster& roster() const noexcept { return roster_; }

 private:
  /// The session of a rank, of any incarnation.
  struct Slot {
    bool connected = false, told = false;
    std::string lost;  // before all have joined: the last worker of this rank, and why its session ended
    uint64_t incarnation = 0;
    Clock::time_point deadline = Clock::time_point::max();  // when its wait for the others to join ends
    std::chrono::milliseconds patience{0};                  // the length of that wait
  };

  Slot& slot(WorkerId rank) { return slots_[static_cast<std::size_t>(rank)]; }
  std::optional<Refusal> admit_first(const WorkerInfo& who, int world_size);
  std::optional<Refusal> admit_again(const WorkerInfo& who, int world_size);
  void join(WorkerId rank, const RendezvousMessage& message, Clock::time_point now);
  void join_again(WorkerId rank, const RendezvousMessage& message, Clock::time_point now);
  void contribute(WorkerId rank, const RendezvousMessage& message, Clock::time_point now);
  void gone(WorkerId rank, MemberState how, const std::string& why, Clock::time_point now);
  void after_gatherings();
  void send_changes(Clock::time_point now, WorkerId except = -1);
  void refuse(WorkerId rank, GroupFailure kind, const std::string& text);
  bool refuses_joins() const;
  Bytes welcome() const;

  Roster roster_;
  Gatherings gatherings_{roster_};
  std::vector<Slot> slots_;    // by rank
  bool leaving_ = false;       // rank 0 is leaving
  std::set<WorkerId> unsent_;  // members whose changes have not been sent yet
  Clock::time_point sent_at_ = Clock::time_point::min(), send_at_ = Clock::time_point::max();
  std::vector<std::string> refusals_;  // why processes were refused before all had joined; at most kMaxRefusals
  std::optional<Gatherings::Failure> failure_;
  std::vector<Action> actions_;
};

/// Returns why this is not a valid name for a worker, or an empty string.
std::string name_problem(const std::string& name);

}  // namespace tendril::rpc
