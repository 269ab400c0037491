#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "tendril/autograd/node.h"
#include "tendril/tensor/export.h"
#include "tendril/tensor/tensor.h"

TENDRIL_API_BEGIN

/// Functions that see, and may replace, gradients on their way through a run. They are called by the thread that runs
/// it, in the order of registration, with recording on under create_graph.
///
/// Thread-safety: registering and removing hooks needs the caller's own ordering with runs through the same graph.
namespace tendril::autograd {

/// Gets the gradient of a tensor, complete (all uses summed) and defined. An undefined result leaves it as it is.
using TensorHook = std::function<Tensor(const Tensor& gradient)>;
/// Gets a node's output gradients before it runs; may replace them by others of their shape, dtype and device, or make
/// them undefined (zero). Backward throws ShapeError, DTypeError or Error of others.
using NodePreHook = std::function<void(std::span<Tensor> output_grads)>;
/// Gets a node's results after it ran, and what it was given; may replace the results.
using NodePostHook = std::function<void(std::span<Tensor> input_grads, std::span<const Tensor> output_grads)>;

/// Takes a hook back; the hook stays if the handle is merely dropped. Does not keep the graph alive.
class HookHandle {
 public:
  HookHandle() = default;
  explicit HookHandle(std::weak_ptr<bool> active) : active_(std::move(active)) {}
  /// The hook is not called any more; again: nothing.
  void remove() {
    if (auto active = active_.lock()) *active = false;
  }

 private:
  std::weak_ptr<bool> active_;
};

/// `hook` sees the gradient of `tensor`, a leaf or an intermediate result. For an intermediate result it belongs to
/// the tensor as it now is: a later in-place change makes it see the gradient with respect to the value before.
/// Throws AutogradError if the tensor does not require a gradient.
HookHandle register_hook(const Tensor& tensor, TensorHook hook);
/// Before a node runs: sees, and may change, its output gradients.
HookHandle register_pre_hook(Node& node, NodePreHook hook);
/// After it has run: sees, and may change, its input gradients.
HookHandle register_post_hook(Node& node, NodePostHook hook);

/// What most nodes do not have.
struct NodeHooks {
  /// One hook, and the number it is removed by.
  template <class F>
  struct Hook {
    F function;                    ///< what is called
    std::shared_ptr<bool> active;  ///< false once its handle has removed it
    uint32_t output_number = 0;    ///< of the node, for a tensor hook
  };
  std::vector<Hook<TensorHook>> tensor_hooks;  ///< in order of registration
  std::vector<Hook<NodePreHook>> pre_hooks;    ///< likewise
  std::vector<Hook<NodePostHook>> post_hooks;  ///< likewise

  /// `.grad` of intermediate tensors whose retain_grad() was called.
  struct Retained {
    uint32_t output_number;  ///< which output of the node
    Tensor grad;             ///< what backward has added up
  };
  std::vector<Retained> retained;  ///< one for each such output

  /// Return addresses at the recording, if that was under DetectAnomaly.
  std::vector<void*> recorded_at;

  /// The hook of retain_grad, or null.
  Retained* find_retained(uint32_t output_number) noexcept;

  /// Tensor hooks, retained gradients and node hooks, in that order.
  void before(std::span<Tensor> output_grads);
  /// Runs the post hooks.
  void after(std::span<Tensor> input_grads, std::span<const Tensor> output_grads);
};

}  // namespace tendril::autograd

TENDRIL_API_END
