#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tendril/rpc/call_context.h"
#include "tendril/rpc/launch/rendezvous_message.h"
#include "tendril/rpc/launch/roster.h"

namespace tendril::rpc {

/// Rank 0's side of gatherings: every worker of a set contributes some bytes, and when all have, each of them receives
/// all contributions. A gathering belongs to the incarnations that its workers had when it began
/// (docs/decisions/0015-members-come-and-go.md): it fails as soon as one of them changes, at whoever waits in it. There
/// is one at a time of each set; any number of sets.
/// The first phase of a shutdown belongs to no incarnations: workers serve others while they wait in it, and one that
/// dies may be started anew and come back to it. It fails once nobody is left who is not in it, and somebody is gone.
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

  /// `message` is a contribution of a worker that is alive. What it says wrong is answered.
  void contribute(WorkerId from, const RendezvousMessage& message, Clock::time_point now);
  /// The roster has changed. True: it fails what somebody waits for.
  bool member_changed(WorkerId rank);
  void on_timer(Clock::time_point now);
  void end() { open_.clear(), answers_.clear(); }  ///< without an answer: the group has failed

  Clock::time_point deadline() const;         ///< when `on_timer` has something to do
  bool met() const noexcept { return met_; }  ///< a gathering of all has come about
  /// A shutdown has got beyond its first phase, or failed where rank 0 took part.
  bool shutting_down() const noexcept { return shutting_down_; }
  bool over() const noexcept { return over_; }  ///< so has the last phase of shutdown
  std::vector<Answer> take_answers();
  std::optional<Failure> take_failure();  ///< the last one of any gathering

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
    Clock::time_point deadline = Clock::time_point::max();  // no later than any of theirs
  };
  using Ranks = std::vector<WorkerId>;      // ascending; empty: all
  using Open = std::map<Ranks, Gathering>;  // by who is to take part

  std::string problem(WorkerId from, const RendezvousMessage& message) const;
  std::optional<std::string> missing(const Ranks& ranks, const RendezvousMessage& message) const;
  bool takes_part(const Ranks& ranks, WorkerId rank) const;
  bool complete(const Ranks& ranks, const Gathering& gathering) const;
  Open::iterator settle(Open::iterator gathering);
  void give_to_all(const Ranks& ranks, const Gathering& gathering);
  void refuse(WorkerId to, uint32_t question, const Failure& failure);
  Open::iterator fail(Open::iterator gathering, const Failure& failure);

  const Roster& roster_;
  Open open_;
  std::vector<Answer> answers_;
  std::optional<Failure> failure_;
  bool met_ = false, shutting_down_ = false, over_ = false;
};

}  // namespace tendril::rpc
