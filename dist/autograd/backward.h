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

/// How backward finds out which workers take part: docs/distributed_autograd.md.
enum class Mode : uint8_t {
  smart,  ///< gradients equal local autograd's whatever part of the context the roots depend on
  fast,   ///< PyTorch's only algorithm: every recorded message must get a gradient, or it waits for ever
};

/// Of a distributed backward.
struct BackwardOptions {
  bool retain_graph = false;             ///< keep what a second backward over the same graph needs
  Mode mode = Mode::smart;               ///< which algorithm
  std::chrono::milliseconds timeout{0};  ///< for all of it, on all workers; 0 = as long as the workers live
  /// Refused with an AutogradError: gradients that cross workers are not recorded. Where a derivative of the second
  /// order is needed, fetch the values and call autograd::grad on one worker.
  bool create_graph = false;
};

namespace detail {
void backward_from(const Context& context, const rpc::RRef<Tensor>& root, const BackwardOptions& options);
}

/// Adds d(sum of roots)/d(leaf) to the context's gradients of every leaf the roots were computed from, on every worker.
/// `.grad` is left alone. Returns when all workers are done. On a CUDA device, this worker's part goes to the default
/// streams, behind what the calling thread's own streams hold; what these are given afterwards finds the gradients.
///
/// The roots are tensors of this worker with one element each; what they are computed from may be anywhere. A backward
/// that fails leaves the context usable; gradients that it had added by then stay.
///
/// Throws, before anything is run: AutogradError for no roots, one that is not scalar or has no history, a context that
/// is unknown here or released, another backward of this context that is running. Later: rpc::RemoteError (the worker
/// that failed and why), rpc::PeerLostError, rpc::TimeoutError, or what a node of this worker threw.
void backward(const Context& context, const std::vector<Tensor>& roots, const BackwardOptions& options = {});
/// ... of a context that was made elsewhere (as get_gradients).
void backward(ContextId context, const std::vector<Tensor>& roots, const BackwardOptions& options = {});
/// ... from a root that another worker has, a loss that is computed there: its owner runs the backward, and this call
/// waits for it. Throws what the owner's would: rpc::TimeoutError and rpc::PeerLostError as they are, others as
/// rpc::RemoteError with its name; PeerLostError too when the owner is lost.
template <std::same_as<rpc::RRef<Tensor>> R>  // so that {loss} means a list of tensors
void backward(const Context& context, const R& root, const BackwardOptions& options = {}) {
  detail::backward_from(context, root, options);
}

}  // namespace tendril::dist::autograd

TENDRIL_API_END
