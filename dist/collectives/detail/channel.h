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
#include "tendril/rpc/system/mutex.h"
#include "tendril/rpc/worker.h"
#include "tendril/tensor/tensor.h"

namespace tendril::dist::detail {

using autograd::detail::Transmitter;

/// One member's endpoint of a process group. It sends parts of tensors to other members and receives theirs; each part
/// is identified by (operation, stage, chunk). A failure of one member's operation fails those of all members.
///
/// A part is sent as a request, which the receiver answers when it has taken the part. So elements that were sent may
/// be changed once `flush` has returned.
///
/// Thread-safety: one thread at a time runs an operation; the agent's threads call the other functions.
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

  /// Sets the function that `close` calls.
  void when_closed(std::function<void(const Channel&)> f) { when_closed_ = std::move(f); }
  /// Leaves the group: operations that wait here fail, and members that send to this one get an error.
  void close();

  /// Returns when all members have joined.
  void join(Deadline deadline);

  // ---- Operations. `what` describes everything that members must agree on; errors quote it.
  void begin(std::string what, Deadline deadline);
  void send(int to, uint32_t stage, uint32_t chunk, Tensor part);
  /// Returns a part of `numel` elements from another member. No other tensor shares its storage.
  Tensor receive(int from, uint32_t stage, uint32_t chunk, int64_t numel, DType dtype);
  /// Returns when at most `at_most` of the parts that were sent have not been taken.
  void flush(std::size_t at_most = 0);
  /// Throws if the channel has failed or the operation's deadline has passed. Call it repeatedly while waiting for
  /// something other than the channel. From time to time it checks that the other members are alive.
  void check_time();
  void end();

  /// Fails the channel, which ends all waiting here. The first failure wins. `tell`: also notifies the other members.
  void fail(Failure failure, bool tell);
  /// Throws if the channel has failed.
  void check() const;
  Failure failure() const;

  // ---- Requests and losses of other members
  void joined(rpc::InboundCall call);
  void deliver(rpc::InboundCall call, PartMessage part);
  void told(const rpc::WorkerInfo& by, const FailureMessage& message);
  WhereaboutsMessage whereabouts() const;
  void peer_lost(const rpc::WorkerInfo& peer, const std::exception_ptr& reason);

 private:
  using Lock = std::unique_lock<rpc::detail::Mutex>;
  // Generation, operation, stage, chunk, sender.
  using Place = std::tuple<uint64_t, uint64_t, uint32_t, uint32_t, rpc::WorkerId>;
  struct Parked {
    rpc::InboundCall call;
    std::string what;
    Tensor part;
  };

  int rank_of(rpc::WorkerId worker) const noexcept;  ///< -1 if it is not a member
  using Ranks = std::vector<int>;
  /// Waits until `ready()`. Returns false if the deadline passes first, and throws once the channel has failed. `of` is
  /// called with the lock and returns the awaited members at which no request is pending: only the liveness check
  /// notices that they are lost.
  template <class Ready>
  bool wait(Lock& lock, Ready ready, const std::function<Ranks()>& of = {});
  void ask_whether_they_live(Lock& lock, const Ranks& ranks);
  void status_received(int rank, uint64_t operation, bool left);
  Ranks awaited() const;  ///< the other members; during joining, those that have not joined. With the lock.
  void wake(Lock& lock);
  [[noreturn]] void fail_by_timeout(const std::string& doing);
  /// "process group 'g', operation 3, all_reduce(sum) of float32 [2]"; between operations only the group's name.
  std::string doing_locked() const;
  std::string describe_missing(uint64_t operation) const;
  std::vector<std::optional<WhereaboutsMessage>> request_all_status() const;
  void answered(rpc::WorkerId from, rpc::Message* reply, const std::exception_ptr& error);
  void check_locked() const;
  Failure mismatch(const rpc::WorkerInfo& other, const std::string& theirs) const;
  void complete_join(Lock& lock);
  /// Starts the generation when all have joined. Releases the lock.
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
  uint64_t generation_ = 0;  // 0 until all have joined
  FailureMessage early_failure_;
  std::map<rpc::WorkerId, rpc::InboundCall> joins_;
  uint64_t operation_ = 0;  // number of the running operation, or of the last
  bool in_operation_ = false;
  std::string what_;
  Deadline deadline_ = Deadline::max();
  std::map<Place, Parked> parked_;
  std::size_t unanswered_ = 0;
  int waits_for_ = -1;                 // rank whose part `receive` waits for
  std::size_t probes_pending_ = 0;     // liveness checks without an answer
  rpc::Clock::time_point next_probe_;  // when `check_time` checks again that members are alive
  Ref<rpc::FutureState<void>> wake_;
};

}  // namespace tendril::dist::detail
