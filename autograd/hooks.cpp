#include "tendril/autograd/hooks.h"

#include "tendril/autograd/grad_mode.h"
#include "tendril/autograd/history.h"
#include "tendril/autograd/ops/pointwise.h"

namespace tendril::autograd {

namespace {

template <class F>
HookHandle add(std::vector<NodeHooks::Hook<F>>& hooks, F function, uint32_t output_number = 0) {
  TENDRIL_CHECK_AS(AutogradError, function, "register_hook: the hook is empty");
  auto active = std::make_shared<bool>(true);
  HookHandle handle(active);
  std::erase_if(hooks, [](const auto& hook) { return !*hook.active; });
  hooks.push_back({std::move(function), std::move(active), output_number});
  return handle;
}

/// A hook may register and remove hooks, its own too; those registered now are called from the next run on.
template <class F, class Call>
void for_each_active(const std::vector<NodeHooks::Hook<F>>& hooks, Call&& call) {
  if (hooks.empty()) return;
  const auto copy = hooks;  // NOLINT(performance-unnecessary-copy-initialization)
  for (const auto& hook : copy) {
    if (*hook.active) call(hook);
  }
}

}  // namespace

HookHandle register_hook(const Tensor& tensor, TensorHook hook) {
  tendril::detail::check_defined(tensor, "register_hook");
  const Edge edge = gradient_edge(tensor);
  TENDRIL_CHECK_AS(AutogradError, edge, "cannot register a hook on a tensor that doesn't require gradient");
  return add(edge.node->make_hooks().tensor_hooks, std::move(hook), edge.input_nr);
}

HookHandle register_pre_hook(Node& node, NodePreHook hook) { return add(node.make_hooks().pre_hooks, std::move(hook)); }

HookHandle register_post_hook(Node& node, NodePostHook hook) {
  return add(node.make_hooks().post_hooks, std::move(hook));
}

NodeHooks::Retained* NodeHooks::find_retained(uint32_t output_number) noexcept {
  for (Retained& entry : retained) {
    if (entry.output_number == output_number) return &entry;
  }
  return nullptr;
}

void NodeHooks::before(std::span<Tensor> output_grads) {
  for_each_active(tensor_hooks, [&](const Hook<TensorHook>& hook) {
    Tensor& gradient = output_grads[hook.output_number];
    if (!gradient.defined()) return;
    Tensor replacement = hook.function(gradient);
    if (!replacement.defined()) return;
    TENDRIL_CHECK_AS(ShapeError, replacement.sizes() == gradient.sizes(),
                     "register_hook: the hook changed the shape of the gradient from ", gradient.sizes(), " to ",
                     replacement.sizes());
    TENDRIL_CHECK_AS(DTypeError, replacement.dtype() == gradient.dtype(),
                     "register_hook: the hook changed the dtype of the gradient from ", gradient.dtype(), " to ",
                     replacement.dtype());
    gradient = std::move(replacement);
  });
  for (Retained& entry : retained) {
    const Tensor& gradient = output_grads[entry.output_number];
    if (!gradient.defined()) continue;
    if (entry.grad.defined()) {
      entry.grad = entry.grad + gradient;
    } else {
      entry.grad = gradient.clone();
    }
  }
  for_each_active(pre_hooks, [&](const Hook<NodePreHook>& hook) { hook.function(output_grads); });
}

void NodeHooks::after(std::span<Tensor> input_grads, std::span<const Tensor> output_grads) {
  for_each_active(post_hooks, [&](const Hook<NodePostHook>& hook) { hook.function(input_grads, output_grads); });
}

}  // namespace tendril::autograd
