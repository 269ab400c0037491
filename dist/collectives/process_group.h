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
class Carrier;
class Channel;
class CollectiveQueue;
}  // namespace tendril::dist::detail

TENDRIL_API_BEGIN

/// What several workers do with a tensor of each: all_reduce, broadcast, all_gather, reduce_scatter.
///
///     dist::ProcessGroup group({"w0", "w1", "w2"});      // at each of them
///     group.all_reduce(gradient, dist::ReduceOp::average);
///
/// docs/collectives.md says how they work.
namespace tendril::dist {

namespace detail {
bool enable_collectives_before_main();
/// Whoever mentions `value` has every agent of this process take part, from before main on.
template <class>
struct CollectivesEnabled {
  static inline const bool value = enable_collectives_before_main();
};
}  // namespace detail

/// A collective that failed for another reason than a lost worker (rpc::PeerLostError) or the time (rpc::TimeoutError):
/// another tensor or operation at another worker, a worker that has left or aborted.
class CollectiveError : public rpc::RpcError {
 public:
  using RpcError::RpcError;
};

/// Who carries the tensors.
enum class Backend : uint8_t {
  ring,  ///< a ring over the RPC sessions
  /// Open MPI, loaded at run time, between processes that its mpirun has started: each is a worker of the RPC group.
  /// Elements of float32, float64, int64, int32 and uint8 are reduced by it, in an order of its own; other dtypes, and
  /// whatever is to be deterministic, by the ring. Failures and deadlines are the group's; but MPI cannot end what it
  /// has begun, and mpirun ends all processes when one dies.
  mpi,
  /// NVIDIA's NCCL, loaded at run time, between workers that have a CUDA device each, of which it takes tensors as they
  /// are: those of the default device, if that is one, or else of cuda::local_device(), as they are when the group is
  /// made. Tensors elsewhere, and whatever is to be deterministic, go by the ring. A failure or a deadline ends what is
  /// under way.
  nccl,
};

/// How elements of several ranks become one.
enum class ReduceOp : uint8_t {
  sum,      ///< of all
  average,  ///< the sum over the number of ranks; of float16 computed in float32, so that no sum overflows
  max,      ///< the largest
  min,      ///< the smallest
};

struct CollectiveOptions {
  std::chrono::milliseconds timeout = std::chrono::seconds(60);  ///< for all of it; 0: as long as the workers live
  /// Sums by rank, ((x0 + x1) + x2) + ..., as one worker that had all tensors would, to the last bit. Else each part of
  /// the tensor is summed in an order of its own: a third less traffic with three workers, the same with many, and the
  /// same bits each time with the same workers. Default: tendril::deterministic(). The same at all workers.
  std::optional<bool> deterministic = {};
};

/// Some workers of an RPC group that work together, each through an object of its own. Every function but the getters
/// and `abort` is collective: all members call it, in the same order and with tensors of the same shape and dtype (on
/// any device), or it fails at all of them: CollectiveError that names the worker with another tensor or operation,
/// TimeoutError that names who has not called it, PeerLostError for one that died. Nothing waits longer than its
/// timeout, and for one that is lost meanwhile not even so long.
///
/// What failed may have changed part of a tensor that it writes to: of its elements some are then the old ones, some
/// are sums of a part of the members and some are results, and its version has gone up, so that a backward which had
/// saved it says so (MPI, which cannot end what it has begun, may write to it later, too). Members may have got to
/// different places: a group that has failed stays so, and each further call throws the same. Make a new one, without
/// the lost.
///
/// Thread-safety: one thread at a time calls collective functions (their order is what members agree on); `_async`
/// ones return at once and are done one after the other, in order with the others, by a thread of the group.
class ProcessGroup {
 public:
  /// Of a group of processes that exchange tensors.
  struct Options {
    /// Tells groups of the same workers apart that exist at the same time.
    std::string tag = {};
    std::chrono::milliseconds timeout = std::chrono::seconds(60);  ///< for all to make theirs; 0: while they live
    /// Tensors travel in parts of so many bytes, so that a worker passes on the first while the next arrives. 0: a
    /// sixteenth of a member's segment, 1 MiB at least and 4 MiB at most. The same at all members.
    std::size_t chunk_bytes = 0;
    Backend backend = Backend::ring;  ///< The same at all members.
  };

  /// Collective: returns when every one of `workers` has made its own, with the same names in the same order; this
  /// worker is among them. Throws UsageError (this worker is not, a name twice or unknown, a group of the same workers
  /// and tag that it still has), TimeoutError naming who is missing, PeerLostError; CollectiveError naming the worker
  /// where the backend is not there.
  explicit ProcessGroup(const std::vector<std::string>& workers) : ProcessGroup(workers, Options{}) {}
  ProcessGroup(const std::vector<std::string>& workers, const Options& options)
      : ProcessGroup(&detail::CollectivesEnabled<void>::value, nullptr, workers, options) {}
  ProcessGroup(rpc::Agent& agent, const std::vector<std::string>& workers, const Options& options)
      : ProcessGroup(&detail::CollectivesEnabled<void>::value, &agent, workers, options) {}
  ProcessGroup(rpc::Agent& agent, const std::vector<std::string>& workers) : ProcessGroup(agent, workers, Options{}) {}
  ~ProcessGroup();  ///< what is still queued fails; members that go on without this one get a CollectiveError
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  int rank() const noexcept;  ///< this worker's place among `workers()`
  /// Who carries its tensors.
  Backend backend() const noexcept { return backend_; }
  /// How many ranks.
  int size() const noexcept;
  /// The ranks' workers, in their order.
  const std::vector<rpc::WorkerInfo>& workers() const noexcept;

  /// x becomes the sum (average, ...) of all members' x, with the same bits at each of them. Any dtype but bool;
  /// averages of floating ones. Half types are rounded after each addition. Throws AutogradError for a tensor that
  /// requires a gradient, unless under NoGrad.
  void all_reduce(const Tensor& x, ReduceOp op = ReduceOp::sum, const CollectiveOptions& options = {});
  /// x, here and on the other members, must be left alone until the future is ready. A tensor of a CUDA device is taken
  /// as the work that the calling thread has issued there leaves it, beside what it issues next.
  rpc::Future<void> all_reduce_async(const Tensor& x, ReduceOp op = ReduceOp::sum,
                                     const CollectiveOptions& options = {});
  /// x becomes that of member `root`. Any dtype. AutogradError as all_reduce.
  void broadcast(const Tensor& x, int root, const CollectiveOptions& options = {});
  /// Every member's x, by rank; a new tensor each, without history. Any dtype.
  std::vector<Tensor> all_gather(const Tensor& x, const CollectiveOptions& options = {});
  /// The sum (average, ...) of all members' x, of which this member gets part `rank()` of `size()` equal parts along
  /// dim 0: a new tensor without history. ShapeError unless dim 0 divides so. dtypes as all_reduce.
  Tensor reduce_scatter(const Tensor& x, ReduceOp op = ReduceOp::sum, const CollectiveOptions& options = {});
  /// Returns when all members have called it.
  void barrier(const CollectiveOptions& options = {});

  /// Fails the group, at all members at once, with a CollectiveError that names this worker and says why. Any thread.
  void abort(const std::string& why);

 private:
  ProcessGroup(const bool*, rpc::Agent* agent, const std::vector<std::string>& workers, const Options& options);

  std::shared_ptr<detail::Channel> channel_;
  std::unique_ptr<detail::CollectiveQueue> queue_;
  const Backend backend_;
  std::unique_ptr<detail::Carrier> carrier_;  // null: the ring
  const std::size_t chunk_bytes_;
};

/// Has every agent that init_rpc makes from now on take part: for programs that only learn of process groups by
/// libraries built apart from them. Any program that makes a ProcessGroup has done so before main.
void enable_collectives();
/// ... for an agent of one's own, before its first call.
void attach_collectives(rpc::Agent& agent);

}  // namespace tendril::dist

TENDRIL_API_END
