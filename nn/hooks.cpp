#include "tendril/nn/hooks.h"

#include <string>

#include "tendril/autograd/function.h"
#include "tendril/autograd/grad_mode.h"
#include "tendril/autograd/history.h"
#include "tendril/nn/module.h"

namespace tendril::nn {

namespace {

/// Hands tensors through, and their gradients by a function.
class Passage final : public autograd::FunctionNode {
 public:
  using Gradients = std::vector<Tensor>;
  using OnGradients = std::function<Gradients(const Gradients&)>;

  /// All of `tensors` require a gradient. Gives them with this node as history.
  static std::vector<Tensor> through(const std::vector<Tensor>& tensors, OnGradients on_gradients) {
    auto* node = new Passage(tensors.size(), std::move(on_gradients));
    const Ref<Node> owner(node);
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      node->set_edge(static_cast<int>(i), autograd::gradient_edge(tensors[i]));
    }
    autograd::FunctionContext context;
    std::vector<Tensor> outputs = tensors;
    node->finish(context, outputs, tensors, true);
    return outputs;
  }

 private:
  Passage(std::size_t count, OnGradients on_gradients)
      : FunctionNode("FullBackwardHook", count), on_gradients_(std::move(on_gradients)) {}
  std::vector<Tensor> backward(const std::vector<Tensor>& grads) override { return on_gradients_(grads); }
  void destroy_now() noexcept override { delete this; }

  OnGradients on_gradients_;
};

/// The tensors that require a gradient, by place.
std::vector<std::size_t> places_of_required(const std::vector<Tensor>& tensors) {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; autograd::grad_enabled() && i < tensors.size(); ++i) {
    if (tensors[i].defined() && tensors[i].requires_grad()) places.push_back(i);
  }
  return places;
}

std::vector<Tensor> chosen(const std::vector<Tensor>& tensors, const std::vector<std::size_t>& places) {
  std::vector<Tensor> result;
  for (const std::size_t i : places) result.push_back(tensors[i]);
  return result;
}

std::vector<Tensor> spread(const std::vector<Tensor>& values, const std::vector<std::size_t>& places,
                           std::size_t count) {
  std::vector<Tensor> result(count);
  for (std::size_t i = 0; i < places.size(); ++i) result[places[i]] = values[i];
  return result;
}

void check_count(const Module& module, const char* hook, std::size_t got, std::size_t expected) {
  TENDRIL_CHECK(got == expected, hook, " of ", module.name(), ": it left ", got, " tensors, expected ", expected);
}

template <class F, class Call>
void for_each_active(const std::vector<detail::ModuleHooks::Hook<F>>& hooks, const Call& call) {
  for (const auto& hook : hooks) {
    if (*hook.active) call(hook.function);
  }
}

template <class F>
void keep_active(std::vector<detail::ModuleHooks::Hook<F>>& hooks) {
  std::erase_if(hooks, [](const auto& hook) { return !*hook.active; });
}

}  // namespace

/// What the backward of one call knows. The gradients of outputs come first, those of inputs last.
struct detail::HookedCall::Backward {
  const Module& module;
  const std::vector<ModuleHooks::Hook<FullBackwardHook>> hooks;
  std::size_t inputs = 0;  // how many there are
  std::vector<std::size_t> required;
  std::vector<Tensor> grad_outputs;

  std::vector<Tensor> run(std::vector<Tensor> grad_inputs) {
    const std::vector<Tensor> outputs = std::exchange(grad_outputs, {}), before = grad_inputs;
    for_each_active(hooks, [&](const FullBackwardHook& hook) {
      hook(module, grad_inputs, outputs);
      check_count(module, "full_backward_hook", grad_inputs.size(), before.size());
    });
    for (std::size_t i = 0; i < before.size(); ++i) {
      const Tensor &was = before[i], &is = grad_inputs[i];
      if (!was.defined() || !is.defined()) continue;
      TENDRIL_CHECK_AS(ShapeError, is.sizes() == was.sizes(), "full_backward_hook of ", module.name(), ": gradient ", i,
                       " has shape ", is.sizes(), ", expected ", was.sizes());
      TENDRIL_CHECK_AS(DTypeError, is.dtype() == was.dtype(), "full_backward_hook of ", module.name(), ": gradient ", i,
                       " is ", is.dtype(), ", expected ", was.dtype());
    }
    return grad_inputs;
  }
};

detail::HookedCall::HookedCall(const Module& module) : module_(module), hooks_(*HooksOf::get(module)) {}

void detail::HookedCall::before(std::vector<Tensor>& inputs) {
  const std::size_t count = inputs.size();
  for_each_active(hooks_.before, [&](const ForwardPreHook& hook) {
    hook(module_, inputs);
    check_count(module_, "forward_pre_hook", inputs.size(), count);
  });
  inputs_ = inputs;
  auto hooks = hooks_.backward;
  keep_active(hooks);
  if (hooks.empty()) return;
  backward_ = std::make_shared<Backward>(Backward{module_, std::move(hooks), count, places_of_required(inputs), {}});
  if (backward_->required.empty()) return;
  const std::vector<Tensor> passed =
      Passage::through(chosen(inputs, backward_->required), [state = backward_](const std::vector<Tensor>& grads) {
        // Not by way of the outputs: a second derivative, through what forward saved.
        if (state->grad_outputs.empty()) return grads;
        return chosen(state->run(spread(grads, state->required, state->inputs)), state->required);
      });
  for (std::size_t i = 0; i < passed.size(); ++i) inputs[backward_->required[i]] = passed[i];
}

void detail::HookedCall::after(std::vector<Tensor>& outputs) {
  const std::size_t count = outputs.size();
  for_each_active(hooks_.after, [&](const ForwardHook& hook) {
    hook(module_, inputs_, outputs);
    check_count(module_, "forward_hook", outputs.size(), count);
  });
  if (!backward_) return;
  const std::vector<std::size_t> required = places_of_required(outputs);
  if (required.empty()) return;
  const std::vector<Tensor> passed = Passage::through(
      chosen(outputs, required), [state = backward_, required, count](const std::vector<Tensor>& grads) {
        state->grad_outputs = spread(grads, required, count);
        if (state->required.empty()) (void)state->run(std::vector<Tensor>(state->inputs));
        return grads;
      });
  for (std::size_t i = 0; i < passed.size(); ++i) outputs[required[i]] = passed[i];
}

Tensor detail::call_between_hooks(const Module& module, const Tensor* const* inputs, std::size_t count, void* self,
                                  Tensor (*forward)(void*, const Tensor*)) {
  HookedCall hooked(module);
  std::vector<Tensor> given;
  for (std::size_t i = 0; i < count; ++i) given.push_back(*inputs[i]);
  hooked.before(given);
  std::vector<Tensor> outputs = {forward(self, given.data())};
  hooked.after(outputs);
  return outputs[0];
}

const detail::ModuleHooks* detail::HooksOf::get(const Module& module) noexcept { return module.hooks_.get(); }

// ---- registration

namespace {

template <class F>
autograd::HookHandle add(const char* op, std::shared_ptr<detail::ModuleHooks>& hooks,
                         std::vector<detail::ModuleHooks::Hook<F>> detail::ModuleHooks::*which, F function) {
  TENDRIL_CHECK(function, op, ": the hook is empty");
  if (!hooks) hooks = std::make_shared<detail::ModuleHooks>();
  auto active = std::make_shared<bool>(true);
  autograd::HookHandle handle(active);
  keep_active((*hooks).*which);
  ((*hooks).*which).push_back({std::move(function), std::move(active)});
  return handle;
}

}  // namespace

autograd::HookHandle Module::register_forward_pre_hook(ForwardPreHook hook) {
  return add("register_forward_pre_hook", hooks_, &detail::ModuleHooks::before, std::move(hook));
}
autograd::HookHandle Module::register_forward_hook(ForwardHook hook) {
  return add("register_forward_hook", hooks_, &detail::ModuleHooks::after, std::move(hook));
}
autograd::HookHandle Module::register_full_backward_hook(FullBackwardHook hook) {
  return add("register_full_backward_hook", hooks_, &detail::ModuleHooks::backward, std::move(hook));
}

}  // namespace tendril::nn
