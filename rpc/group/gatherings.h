#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tendril/rpc/call_context.h"
#include "tendril/rpc/group/rendezvous_message.h"
#include "tendril/rpc/group/roster.h"

namespace tendril::rpc {

/// Rank 0's side of gatherings. Every worker of a set contributes some bytes; when all have done so, each of them
/// receives all contributions. A gathering belongs to the incarnations that its workers had when it began
/// (docs/decisions/0015-members-come-and-go.md): as soon as one of them changes, it fails for all workers that wait in
/// it. Each set has at most one gathering at a time, and a worker may be in up to 64 gatherings.
///
/// The first phase of a shutdown does not belong to incarnations: workers keep serving calls while they wait in it, and
/// a worker that dies may be restarted and return to it. It fails once all live workers are in it and another one is
/// gone.
///
/// Not thread-safe.
class Gatherings {
 public:
  struct Answer {
    WorkerId to = 0;
    Bytes bytes;
  };
  struct Failure {
    GroupFailure kind = GroupFailure::usage;
    std::string text = {};
  };

  explicit Gatherings(const Roster& roster) : roster_(roster) {}

  /// `message` is a contribution of a live worker. An invalid contribution is answered with an error.
  void contribute(WorkerId from, const RendezvousMessage& message, Clock::time_point now);
  /// Updates the gatherings after a change of the roster. Returns whether this ended a
  /// gathering in which workers waited.
  bool member_changed(WorkerId rank);
  void on_timer(Clock::time_point now);
  void end() { open_.clear(), answers_.clear(); }  ///< sends no answers, because the group has failed

  Clock::time_point deadline() const;         ///< when to call `on_timer`
  bool met() const noexcept { return met_; }  ///< a gathering of all workers has succeeded
  /// A shutdown has completed its first phase, or has failed while rank 0 took part.
  bool shutting_down() const noexcept { return shutting_down_; }
  bool over() const noexcept { return over_; }  ///< the last phase of a shutdown has succeeded
  std::vector<Answer> take_answers();
  std::optional<Failure> take_failure();  ///< the latest failure of any gathering

 private:
  struct Contribution {
    uint32_t question = 0;
    std::string part = {};
    std::chrono::milliseconds patience{0};
    Clock::time_point deadline = Clock::time_point::max();
  };
  struct Gathering {
    std::string phase = {};
    Attendance attendance = Attendance::named;
    std::map<WorkerId, Contribution> contributions = {};
    Clock::time_point deadline = Clock::time_point::max();  // not after any deadline in `contributions`
  };
  using Ranks = std::vector<WorkerId>;      // ascending; empty: all
  using Open = std::map<Ranks, Gathering>;  // by the ranks that take part

  std::string problem(WorkerId from, const RendezvousMessage& message) const;
  std::optional<std::string> missing(const Ranks& ranks, const RendezvousMessage& message) const;
  bool takes_part(const Ranks& ranks, WorkerId rank) const;
  bool complete(const Ranks& ranks, const Gathering& gathering) const;
  Open::iterator settle(Open::iterator gathering);
  void send_to_all(const Ranks& ranks, const Gathering& gathering);
  void refuse(WorkerId to, uint32_t question, const Failure& failure);
  Open::iterator fail(Open::iterator gathering, const Failure& failure);

  const Roster& roster_;
  Open open_;
  std::vector<Answer> answers_;
  std::optional<Failure> failure_;
  bool met_ = false, shutting_down_ = false, over_ = false;
};

}  // namespace tendril::rpc
