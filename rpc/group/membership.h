#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tendril/rpc/future.h"
#include "tendril/rpc/group/gathering.h"
#include "tendril/rpc/group/rendezvous_message.h"
#include "tendril/rpc/members.h"
#include "tendril/rpc/session/group_events.h"
#include "tendril/rpc/system/mutex.h"
#include "tendril/rpc/threads/loop.h"

namespace tendril::rpc::detail {

/// A worker's side of the rendezvous: the messages that it sends to rank 0 and receives from it. `heard`,
/// `rank_0_lost`, `peer_lost`, `applied`, `on_changes` and `on_losses` run on the leader's thread. Functions that wait
/// may be called from any thread that does not drive I/O, all others from any thread.
class Membership {
 public:
  /// `tell` sends a message to rank 0. It may be called from any thread.
  Membership(Ref<Loop> loop, std::function<void(const RendezvousMessage&)> tell);

  struct Welcome {
    uint64_t epoch = 0;
    std::vector<MemberRecord> members = {};  ///< by rank
    /// Whether the others have met already, which means that this worker has been restarted.
    bool is_rejoin() const noexcept { return epoch > 1; }
  };
  /// Returns when all workers have joined. A timeout of 0 means no limit.
  Welcome join(std::string introduction, std::chrono::milliseconds timeout);

  /// The workers that take part in a gathering; by default all.
  struct Participants {
    Attendance attendance = Attendance::named;
    std::vector<WorkerId> ranks = {};    ///< ascending; empty: all
    std::optional<uint64_t> epoch = {};  ///< default: the view's epoch
  };
  /// Takes part in a gathering and returns all contributions, by rank. The rendezvous ends the gathering when the
  /// timeout of any waiting worker expires. A timeout of 0 means no limit: the worker waits as long as the others are
  /// alive. Threads may gather different sets of workers at the same time; those that gather the same set take turns.
  ///
  /// Throws TimeoutError, PeerLostError, UsageError. Once the group has ended, throws its error at once.
  std::vector<std::string> gather(const std::string& phase, std::string contribution, std::chrono::milliseconds timeout,
                                  const Participants& who);
  std::vector<std::string> gather(const std::string& phase, std::string contribution,
                                  std::chrono::milliseconds timeout) {
    return gather(phase, std::move(contribution), timeout, {});
  }
  /// True once the loss of rank 0 has ended the group: workers can no longer meet, because rank 0 runs the gatherings.
  bool has_lost_rank_0() const;
  /// Throws if the group has failed or, unless losses are accepted, if a member is not alive.
  void check(bool accept_losses) const;
  /// Tells rank 0 that this worker cannot continue because of `text`. This ends the group; once the group has met, a
  /// worker other than rank 0 ends only its own membership. Does not throw.
  void fail(const std::string& text) noexcept;
  /// Tells rank 0 that this worker leaves as intended. Does not throw.
  void leave() noexcept;
  /// Ends all pending waits for the group. These and all later ones throw `failure`; only the first call has an effect.
  void end(std::exception_ptr failure);

  const std::vector<std::string>& names() const noexcept { return names_; }  ///< by rank; after `join`
  GroupView view() const;
  /// Returns the view once its epoch is higher than `epoch`, or at the deadline. Throws the error that ended the group.
  GroupView wait_for_change(uint64_t epoch, Clock::time_point deadline);

  void heard(RendezvousMessage message);
  void rank_0_lost(const std::string& why);
  /// Registers `apply`, which is called on the leader's thread with all changes since the welcome, in order. It must
  /// call `applied` for each change.
  void on_changes(std::function<void(const std::vector<MemberRecord>&)> apply);
  /// Handles the end of the session with a peer other than rank 0; reports it to rank 0 if the peer is still a member.
  void peer_lost(const GroupEvents::Loss& loss);
  /// Registers `restore`, which is called on the leader's thread with each peer whose session ends or has ended before.
  void on_losses(std::function<void(WorkerId)> restore);
  void applied(const MemberRecord& change);  ///< shows a change in `view`: this worker's sessions agree with it

 private:
  std::size_t num_members() const;
  struct Question {
    Ref<FutureState<void>> answered;
    RendezvousMessage answer = {};
  };

  RendezvousMessage ask(RendezvousMessage question, const std::string& doing);
  void welcomed(const RendezvousMessage& message);
  /// Waits until no other thread gathers the same ranks. Throws TimeoutError.
  class Turn;

  const Ref<Loop> loop_;
  const std::function<void(const RendezvousMessage&)> tell_;
  std::vector<std::string> names_;
  std::function<void(const std::vector<MemberRecord>&)> apply_;  // the leader's
  std::vector<MemberRecord> unapplied_;                          // the leader's: changes before `apply_` was set
  std::function<void(WorkerId)> restore_;                        // the leader's
  std::vector<WorkerId> unrestored_;                             // the leader's: losses before `restore_` was set

  mutable Mutex mutex_;
  std::map<uint32_t, std::shared_ptr<Question>> asked_;  // by number
  uint32_t last_question_ = 0;
  std::set<std::vector<WorkerId>> gathering_;  // the ranks of each gathering in progress here
  Condition turn_ended_;
  GroupView view_;
  std::vector<Ref<FutureState<void>>> watchers_;
  std::exception_ptr failure_;  // the error that ended the group for this worker
  bool rank_0_lost_ = false;
};

/// Handles the group events of the agents of ranks 1 and up.
class WorkerEvents final : public GroupEvents {
 public:
  explicit WorkerEvents(std::shared_ptr<Membership> membership) : membership_(std::move(membership)) {}

  std::optional<Refusal> asked(const Hello& theirs) override;
  void refused(const std::string&) override {}
  void connected(const WorkerInfo&, uint64_t) override {}
  void received(const WorkerInfo& from, uint64_t incarnation, Bytes payload) override;
  void lost(const Loss& loss) override;
  bool restores(const WorkerInfo& peer) const override { return peer.id != 0; }
  bool awaits(const WorkerInfo& peer) const override { return peer.id == 0; }  // only rank 0 tracks liveness

 private:
  const std::shared_ptr<Membership> membership_;
};

}  // namespace tendril::rpc::detail
