#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tendril/dist/autograd/detail/transmitter.h"
#include "tendril/dist/collectives/detail/messages.h"
#include "tendril/rpc/call/inbound_call.h"
#include "tendril/rpc/future.h"
#include "tendril/rpc/threads/mutex.h"
#include "tendril/rpc/worker.h"
#include "tendril/tensor/tensor.h"

namespace tendril::dist::detail {

using autograd::detail::Transmitter;

/// One member's end of a process group: parts of tensors go to other members and come from them, each with a name
/// (operation, stage, chunk), and whatever fails one member's operation fails all members'.
///
/// A part is a request; its answer says that the other member has taken it. So elements that were sent may be changed
/// once `flush` has returned.
///
/// Thread-safety: one thread at a time is in an operation; the rest is called by the agent's threads.
class Channel final : public std::enable_shared_from_this<Channel> {
 public:
  using Deadline = rpc::Clock::time_point;

  Channel(std::shared_ptr<Transmitter> transmitter, std::vector<rpc::WorkerInfo> members, int rank, std::string tag);

  const std::vector<rpc::WorkerInfo>& members() const noexcept { return members_; }
  int rank() const noexcept { return rank_; }
  int size() const noexcept { return static_cast<int>(members_.size()); }
  uint64_t key() const noexcept { return key_; }
  rpc::Executor& executor() const noexcept;
  /// "process group 'tag' of workers 'w0', 'w1'"
  const std::string& name() const noexcept { return name_; }

  /// `f` is called once, by `close`.
  void when_closed(std::function<void(const Channel&)> f) { when_closed_ = std::move(f); }
  /// This member has left: what waits here fails, and who sends to it is told so.
  void close();

  /// Returns when all members have joined.
  void join(Deadline deadline);

  // ---- an operation. `what` describes it with all that members must agree on; errors quote it.
  void begin(std::string what, Deadline deadline);
  void send(int to, uint32_t stage, uint32_t chunk, Tensor part);
  /// A part of so many elements, from another member; nobody else has it.
  Tensor receive(int from, uint32_t stage, uint32_t chunk, int64_t numel, DType dtype);
  /// Returns when at most so many parts that were sent have not been taken.
  void flush(std::size_t at_most = 0);
  /// Throws if it has failed or the operation's time is over: for who waits for something else than the channel, again
  /// and again. Now and then it asks whether the others live.
  void check_time();
  void end();

  /// First failure wins; it ends whatever waits here. `tell`: the other members too.
  void fail(Failure failure, bool tell);
  /// Throws if it has failed.
  void check() const;
  Failure failure() const;

  // ---- requests of other members, and what becomes of them
  void joined(rpc::InboundCall call);
  void deliver(rpc::InboundCall call, PartMessage part);
  void told(const rpc::WorkerInfo& by, const FailureMessage& message);
  WhereaboutsMessage whereabouts() const;
  void peer_lost(const rpc::WorkerInfo& peer, const std::exception_ptr& reason);

 private:
  using Lock = std::unique_lock<rpc::detail::Mutex>;
  using Place = std::tuple<uint64_t, uint64_t, uint32_t, uint32_t, rpc::WorkerId>;  // generation first, sender last
  struct Parked {
    rpc::InboundCall call;
    std::string what;
    Tensor part;
  };

  int rank_of(rpc::WorkerId worker) const noexcept;  ///< -1: no member
  using Ranks = std::vector<int>;
  /// Waits until `ready()`. False: the deadline has passed. Throws once the channel has failed. `of`: says, with the
  /// lock, the ranks of the members that are waited for and owe no answer that they could be missed by.
  template <class Ready>
  bool wait(Lock& lock, Ready ready, const std::function<Ranks()>& of = {});
  void ask_whether_they_live(Lock& lock, const Ranks& ranks);
  void heard_of(int rank, uint64_t operation, bool left);
  Ranks awaited() const;  ///< while they join, those who have not, as the first member knows. With the lock.
  void wake(Lock& lock);
  [[noreturn]] void too_late(const std::string& doing);
  /// "process group 'g', operation 3, all_reduce(sum) of float32 [2]"; between operations the group alone.
  std::string doing_locked() const;
  std::string who_is_missing(uint64_t operation) const;
  std::vector<std::optional<WhereaboutsMessage>> ask_all() const;
  void answered(rpc::WorkerId from, rpc::Message* reply, const std::exception_ptr& error);
  void check_locked() const;
  Failure mismatch(const rpc::WorkerInfo& other, const std::string& theirs) const;
  void complete_join(Lock& lock);
  /// All have joined: takes the lock, gives it back.
  void begin_generation(Lock& lock, uint64_t generation);

  const std::shared_ptr<Transmitter> transmitter_;
  const std::vector<rpc::WorkerInfo> members_;
  std::map<rpc::WorkerId, int> ranks_;  // by worker
  const int rank_;
  const std::string name_;
  const uint64_t key_;

  std::function<void(const Channel&)> when_closed_;

  mutable rpc::detail::Mutex mutex_;
  Failure failure_;
  uint64_t generation_ = 0;  // 0: not all have joined
  FailureMessage early_failure_;
  std::map<rpc::WorkerId, rpc::InboundCall> joins_;
  uint64_t operation_ = 0;  // the running one, or the last
  bool in_operation_ = false;
  std::string what_;
  Deadline deadline_ = Deadline::max();
  std::map<Place, Parked> parked_;
  std::size_t unanswered_ = 0;
  int waits_for_ = -1;              // a part of this member, in this operation
  std::size_t asking_ = 0;          // so many members whether they live
  rpc::Clock::time_point asks_at_;  // `check_time` does
  Ref<rpc::FutureState<void>> wake_;
};

}  // namespace tendril::dist::detail
