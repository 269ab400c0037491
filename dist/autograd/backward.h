#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>
#include <vector>

#include "tendril/dist/autograd/context.h"
#include "tendril/rpc/rref.h"
#include "tendril/tensor/export.h"
#include "tendril/tensor/tensor.h"

TENDRIL_API_BEGIN

namespace tendril::dist::autograd {

/// The algorithm of a distributed backward: docs/distributed_autograd.md.
enum class Mode : uint8_t {
  smart,  ///< gradients equal those of local autograd, even if the roots depend on only part of the context
  fast,   ///< PyTorch's only algorithm: if any recorded message gets no gradient, backward waits forever
};

/// Options of a distributed backward.
struct BackwardOptions {
  bool retain_graph = false;  ///< keep saved tensors for a second backward over the same graph
  Mode mode = Mode::smart;    ///< which algorithm
  /// Applies to the whole backward, on all workers. 0: unlimited while the workers live.
  std::chrono::milliseconds timeout{0};
  /// Rejected with an AutogradError, because gradients that cross workers are not recorded. For second-order
  /// derivatives, fetch the values and call autograd::grad on one worker.
  bool create_graph = false;
};

namespace detail {
void backward_from(const Context& context, const rpc::RRef<Tensor>& root, const BackwardOptions& options);
}

/// Adds d(sum of roots)/d(leaf) to the context's gradients of every leaf the roots were computed from, on every worker.
/// `.grad` does not change. Returns when all workers are done. On a CUDA device, this worker's part runs on the default
/// streams, after the work already queued on the calling thread's own streams. Work queued on those streams afterwards
/// sees the gradients.
///
/// The roots are tensors of this worker with one element each, and may depend on tensors of any worker. After a failed
/// backward the context remains usable, and keeps the gradients that were added before the failure.
///
/// Throws AutogradError before anything runs if there are no roots, a root is undefined, not a scalar or without
/// history, an option is invalid, the context is unknown here or released, or another backward of this context is
/// running. Throws later: rpc::RemoteError (which worker failed, and its error), rpc::PeerLostError, rpc::TimeoutError,
/// or the exception of a node of this worker.
void backward(const Context& context, const std::vector<Tensor>& roots, const BackwardOptions& options = {});
/// As above, for a context that may have been made on another worker. Uses the same agent as get_gradients(ContextId).
void backward(ContextId context, const std::vector<Tensor>& roots, const BackwardOptions& options = {});
/// As above, from a root on another worker, such as a loss that is computed there: the root's owner runs the backward,
/// and this call waits for it. Rethrows the owner's rpc::TimeoutError and rpc::PeerLostError unchanged, and its other
/// errors as rpc::RemoteError with the owner's name. Also throws PeerLostError if the owner is lost.
template <std::same_as<rpc::RRef<Tensor>> R>  // so that {loss} means a list of tensors
void backward(const Context& context, const R& root, const BackwardOptions& options = {}) {
  detail::backward_from(context, root, options);
}

}  // namespace tendril::dist::autograd

TENDRIL_API_END
