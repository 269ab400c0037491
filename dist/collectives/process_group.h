#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tendril/rpc/agent.h"
#include "tendril/rpc/error.h"
#include "tendril/rpc/future.h"
#include "tendril/rpc/worker.h"
#include "tendril/tensor/export.h"
#include "tendril/tensor/tensor.h"

namespace tendril::dist::detail {  // hidden
class CollectiveBackend;
class Channel;
class CollectiveQueue;
}  // namespace tendril::dist::detail

TENDRIL_API_BEGIN

/// Collective operations on one tensor per worker: all_reduce, broadcast, all_gather, reduce_scatter.
///
///     dist::ProcessGroup group({"w0", "w1", "w2"});      // on each of them
///     group.all_reduce(gradient, dist::ReduceOp::average);
///
/// docs/collectives.md describes the algorithms.
namespace tendril::dist {

namespace detail {
bool enable_collectives_before_main();
/// Using `value` enables collectives on every agent of this process: its initializer runs before main.
template <class>
struct CollectivesEnabled {
  static inline const bool value = enable_collectives_before_main();
};
}  // namespace detail

/// A collective operation failed, but not because of a lost worker (rpc::PeerLostError) or a timeout
/// (rpc::TimeoutError): a member called another operation or passed another tensor, has left the group or aborted it.
class CollectiveError : public rpc::RpcError {
 public:
  using RpcError::RpcError;
};

/// The implementation that moves and reduces the tensors.
enum class Backend : uint8_t {
  ring,  ///< a ring over the RPC sessions
  /// Open MPI, loaded at run time. All members must be processes of one mpirun job. MPI reduces float32, float64,
  /// int64, int32 and uint8, in an order that it chooses; other dtypes and deterministic reductions use RPC sessions as
  /// with `ring`. Failures and deadlines are handled as with `ring`, but MPI cannot cancel a running operation, and
  /// mpirun ends all processes when one dies.
  mpi,
  /// NVIDIA's NCCL, loaded at run time. Each member needs a CUDA device: the default device if it is a CUDA device when
  /// the group is made, otherwise cuda::local_device(). NCCL handles tensors of that device without a copy to the CPU;
  /// tensors on other devices and deterministic reductions use RPC sessions as with `ring`. A failure or a deadline
  /// ends the running operation.
  nccl,
};

/// How the elements of several ranks are combined.
enum class ReduceOp : uint8_t {
  sum,      ///< the sum
  average,  ///< the sum divided by the number of ranks; the ring sums float16 in float32, so that no sum overflows
  max,      ///< the largest
  min,      ///< the smallest
};

struct CollectiveOptions {
  std::chrono::milliseconds timeout = std::chrono::seconds(60);  ///< per operation; 0: no limit while the workers live
  /// Whether to sum in rank order, ((x0 + x1) + x2) + ..., with the same bits as on one worker that has all tensors. If
  /// false, the ring sums each segment of the tensor in a different order: a third less traffic with three workers,
  /// about as much with many, and the same bits each time with the same workers. Default: tendril::deterministic().
  /// Must be the same on all workers.
  std::optional<bool> deterministic = {};
};

/// Some workers of an RPC group that run collective operations together. Each member constructs a ProcessGroup. Every
/// function except the getters and `abort` is collective: all members must call it, in the same order and with tensors
/// of the same shape and dtype (on any device). Otherwise it fails on all members: with a CollectiveError that names a
/// member with another tensor or operation, a TimeoutError that names the members that have not called it, or a
/// PeerLostError that names a member that died. No call waits longer than its timeout; it fails earlier if a member is
/// lost.
///
/// A failed operation may have changed part of the tensor that it writes to: some elements are then unchanged, some are
/// sums over a part of the members, and some are results. The tensor's version has increased in this case, so that a
/// backward that saved the tensor reports the change. (MPI cannot cancel a running operation and may write to the
/// tensor even later.) Members may have stopped at different points, so the group stays failed, and each further call
/// throws the same error. Make a new group without the lost members.
///
/// Thread-safety: only one thread at a time may call collective functions, because members must agree on their order.
/// The `_async` functions return at once; a thread of the group runs their operations one after the other, in order
/// with the synchronous ones.
class ProcessGroup {
 public:
  /// Options of the constructor.
  struct Options {
    /// Distinguishes groups of the same workers that exist at the same time.
    std::string tag = {};
    std::chrono::milliseconds timeout = std::chrono::seconds(60);  ///< for all to join; 0: no limit while they live
    /// Tensors are sent in chunks of this many bytes, so that a worker can forward one chunk while the next arrives. 0:
    /// a sixteenth of a member's segment, at least 1 MiB and at most 4 MiB. Must be the same on all members.
    std::size_t chunk_bytes = 0;
    Backend backend = Backend::ring;  ///< must be the same on all members
  };

  /// Collective: returns when each of `workers` has constructed its ProcessGroup, with the same names in the same
  /// order. `workers` must contain this worker. Throws UsageError if it does not, if a name is unknown or listed twice,
  /// or if this worker still has a group of the same workers and tag; TimeoutError that names the missing workers;
  /// PeerLostError; CollectiveError that names a worker that cannot use the backend.
  explicit ProcessGroup(const std::vector<std::string>& workers) : ProcessGroup(workers, Options{}) {}
  ProcessGroup(const std::vector<std::string>& workers, const Options& options)
      : ProcessGroup(&detail::CollectivesEnabled<void>::value, nullptr, workers, options) {}
  ProcessGroup(rpc::Agent& agent, const std::vector<std::string>& workers, const Options& options)
      : ProcessGroup(&detail::CollectivesEnabled<void>::value, &agent, workers, options) {}
  ProcessGroup(rpc::Agent& agent, const std::vector<std::string>& workers) : ProcessGroup(agent, workers, Options{}) {}
  ~ProcessGroup();  ///< fails queued operations; members that continue without this one get a CollectiveError
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  int rank() const noexcept;  ///< index of this worker in `workers()`
  /// The backend given to the constructor.
  Backend backend() const noexcept { return backend_; }
  /// Number of members.
  int size() const noexcept;
  /// The members, by rank.
  const std::vector<rpc::WorkerInfo>& workers() const noexcept;

  /// Replaces x with the sum (average, ...) of all members' x, with the same bits on each member. Any dtype except
  /// bool; averages need a floating dtype. Sums of half-precision dtypes are rounded after each addition. Throws
  /// AutogradError for a tensor that requires a gradient, except under NoGrad.
  void all_reduce(const Tensor& x, ReduceOp op = ReduceOp::sum, const CollectiveOptions& options = {});
  /// Starts an all_reduce. Do not use x, here or on the other members, until the future is ready. On a CUDA device, the
  /// operation runs after the work that the calling thread has issued to its current stream, and concurrently with work
  /// that it issues later.
  rpc::Future<void> all_reduce_async(const Tensor& x, ReduceOp op = ReduceOp::sum,
                                     const CollectiveOptions& options = {});
  /// Replaces x with the x of member `root`. Any dtype. Throws AutogradError as all_reduce does.
  void broadcast(const Tensor& x, int root, const CollectiveOptions& options = {});
  /// Returns every member's x, by rank, as new tensors without history, which may share one storage. Any dtype.
  std::vector<Tensor> all_gather(const Tensor& x, const CollectiveOptions& options = {});
  /// Computes the sum (average, ...) of all members' x, and returns part `rank()` of its `size()` equal parts along dim
  /// 0, as a new tensor without history. Throws ShapeError unless dim 0 is divisible by `size()`. dtypes as in
  /// all_reduce.
  Tensor reduce_scatter(const Tensor& x, ReduceOp op = ReduceOp::sum, const CollectiveOptions& options = {});
  /// Returns when all members have called it.
  void barrier(const CollectiveOptions& options = {});

  /// Fails the group immediately, on all members, with a CollectiveError that names this worker and contains `why`. Any
  /// thread may call it.
  void abort(const std::string& why);

 private:
  ProcessGroup(const bool*, rpc::Agent* agent, const std::vector<std::string>& workers, const Options& options);

  std::shared_ptr<detail::Channel> channel_;
  std::unique_ptr<detail::CollectiveQueue> queue_;
  const Backend backend_;
  std::unique_ptr<detail::CollectiveBackend> carrier_;  // null for Backend::ring
  const std::size_t chunk_bytes_;
};

/// Enables collectives on every agent that init_rpc makes from now on. Only for programs that use process groups solely
/// through separately built libraries: a program that constructs a ProcessGroup itself has done this before main.
void enable_collectives();
/// Enables collectives on an agent that init_rpc did not make. Call it before the agent's first call.
void attach_collectives(rpc::Agent& agent);

}  // namespace tendril::dist

TENDRIL_API_END
