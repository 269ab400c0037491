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
#include "tendril/rpc/launch/gathering.h"
#include "tendril/rpc/launch/rendezvous_message.h"
#include "tendril/rpc/members.h"
#include "tendril/rpc/session/group_events.h"
#include "tendril/rpc/threads/loop.h"
#include "tendril/rpc/threads/mutex.h"

namespace tendril::rpc::detail {

/// A worker's part in the rendezvous: what it says to rank 0, and what it hears. `heard`, `rank_0_lost` and `applied`
/// are the leader's; functions that wait are for any thread that does not drive I/O, the others for any.
class Membership {
 public:
  /// `tell` sends to rank 0, from any thread.
  Membership(Ref<Loop> loop, std::function<void(const RendezvousMessage&)> tell);

  struct Welcome {
    uint64_t epoch = 0;
    std::vector<MemberRecord> members = {};  ///< by rank
    /// The others have met already: it is one of them that was started anew.
    bool is_again() const noexcept { return epoch > 1; }
  };
  /// Returns when all have joined. 0 = it waits for ever.
  Welcome join(std::string introduction, std::chrono::milliseconds timeout);

  /// Who takes part in a gathering; by default all.
  struct Who {
    Attendance attendance = Attendance::named;
    std::vector<WorkerId> ranks = {};    ///< ascending; empty: all
    std::optional<uint64_t> epoch = {};  ///< default: that of the view
  };
  /// Takes part in a gathering and returns all contributions, by rank. The rendezvous ends it when the timeout of any
  /// worker that waits has passed; 0 = none: it waits for others as long as they live. Throws TimeoutError,
  /// PeerLostError, UsageError; and what has ended the group, from then on, at once. Gatherings of different workers
  /// may be waited for at the same time; of the same ones the second waits for the first.
  std::vector<std::string> gather(const std::string& phase, std::string contribution, std::chrono::milliseconds timeout,
                                  const Who& who);
  std::vector<std::string> gather(const std::string& phase, std::string contribution,
                                  std::chrono::milliseconds timeout) {
    return gather(phase, std::move(contribution), timeout, {});
  }
  /// True once the loss of rank 0 has ended the group: workers can no longer meet, because rank 0 runs the gatherings.
  bool has_lost_rank_0() const;
  /// Throws if the group has failed by now, or, unless losses are accepted, if a member is not alive.
  void check(bool accept_losses) const;
  /// Ends the group for all, or once it has met this worker's part in it: it cannot go on, because of `text`. Does not
  /// throw.
  void fail(const std::string& text) noexcept;
  /// Says that this worker leaves as it should. Does not throw.
  void leave() noexcept;
  /// Whoever waits for anything here throws this; so does whoever asks later.
  void end(std::exception_ptr failure);

  const std::vector<std::string>& names() const noexcept { return names_; }  ///< by rank; after `join`
  GroupView view() const;
  /// Returns the view as soon as its epoch is higher, or at the deadline. Throws what has ended the group.
  GroupView wait_for_change(uint64_t epoch, Clock::time_point deadline);

  void heard(RendezvousMessage message);
  void rank_0_lost(const std::string& why);
  /// `apply` is told, on the leader's thread, of all changes since the welcome, in order, and says `applied` of each.
  void on_changes(std::function<void(const std::vector<MemberRecord>&)> apply);
  /// Handles the end of the session with a peer other than rank 0; reports it to rank 0 if the peer is still a member.
  void peer_lost(const GroupEvents::Loss& loss);
  /// Registers `restore`, which is called on the leader's thread with each peer whose session has ended, also before.
  void on_losses(std::function<void(WorkerId)> restore);
  void applied(const MemberRecord& change);  ///< this worker's sessions are in step with it: from now on it is seen

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
  std::vector<MemberRecord> unapplied_;                          // the leader's: until there is an `apply_`
  std::function<void(WorkerId)> restore_;                        // the leader's
  std::vector<WorkerId> unrestored_;                             // the leader's: losses before `restore_` was set

  mutable Mutex mutex_;
  std::map<uint32_t, std::shared_ptr<Question>> asked_;  // by their numbers
  uint32_t last_question_ = 0;
  std::set<std::vector<WorkerId>> gathering_;  // the ranks of each gathering in progress here
  Condition turn_ended_;
  GroupView view_;
  std::vector<Ref<FutureState<void>>> watchers_;
  std::exception_ptr failure_;  // of the group, once this worker has heard of it
  bool rank_0_lost_ = false;
};

/// What the agents of ranks 1 and up hear of their group.
class WorkerEvents final : public GroupEvents {
 public:
  explicit WorkerEvents(std::shared_ptr<Membership> membership) : membership_(std::move(membership)) {}

  std::optional<Refusal> asked(const Hello& theirs) override;
  void refused(const std::string&) override {}
  void connected(const WorkerInfo&, uint64_t) override {}
  void received(const WorkerInfo& from, uint64_t incarnation, Bytes payload) override;
  void lost(const Loss& loss) override;
  bool restores(const WorkerInfo& peer) const override { return peer.id != 0; }
  bool awaits(const WorkerInfo& peer) const override { return peer.id == 0; }  // rank 0 alone knows who lives

 private:
  const std::shared_ptr<Membership> membership_;
};

}  // namespace tendril::rpc::detail
