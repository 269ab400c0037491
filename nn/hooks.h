#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "tendril/autograd/hooks.h"
#include "tendril/tensor/export.h"
#include "tendril/tensor/tensor.h"

TENDRIL_API_BEGIN

/// Functions that see what goes into a module and what comes out of it (docs/nn.md). Module::register_forward_hook and
/// its like register them; they run where the module is called, `layer(x)`, not where its `forward` is.
namespace tendril::nn {

class Module;

/// Before forward: may replace the tensors among the arguments, in their order (undefined ones too), by others.
using ForwardPreHook = std::function<void(const Module& module, std::vector<Tensor>& inputs)>;
/// After forward: may replace the tensors of the result, in their order.
using ForwardHook =
    std::function<void(const Module& module, const std::vector<Tensor>& inputs, std::vector<Tensor>& outputs)>;
/// In backward, when the gradients of the module's inputs are known: may replace those by others of their shapes.
/// Undefined where an input requires none; gradients of outputs that nothing was computed from are zeros. Not called
/// for what comes to the inputs by other ways than the outputs, as second derivatives do.
using FullBackwardHook = std::function<void(const Module& module, std::vector<Tensor>& grad_inputs,
                                            const std::vector<Tensor>& grad_outputs)>;

namespace detail {

/// What most modules do not have.
struct ModuleHooks {
  template <class F>
  struct Hook {
    F function;
    std::shared_ptr<bool> active;
  };
  std::vector<Hook<ForwardPreHook>> before;
  std::vector<Hook<ForwardHook>> after;
  std::vector<Hook<FullBackwardHook>> backward;
};

/// For what calls modules.
struct HooksOf {
  static const ModuleHooks* get(const Module& module) noexcept;
};

/// One call between a module's hooks.
class HookedCall {
 public:
  explicit HookedCall(const Module& module);
  void before(std::vector<Tensor>& inputs);
  void after(std::vector<Tensor>& outputs);

 private:
  struct Backward;
  const Module& module_;
  const ModuleHooks hooks_;  // those there are now: a hook may register and remove others
  std::vector<Tensor> inputs_;
  std::shared_ptr<Backward> backward_;
};

/// f for each tensor of a value, in order: a Tensor, vectors, pairs and tuples, and classes that say which are theirs
/// by a member `for_each_tensor(self, f)`.
template <class T, class F>
void for_each_tensor(T& value, const F& f) {
  using Value = std::remove_const_t<T>;
  if constexpr (std::is_same_v<Value, Tensor>) {
    f(value);
  } else if constexpr (requires { Value::for_each_tensor(value, f); }) {
    Value::for_each_tensor(value, f);
  } else if constexpr (requires { std::tuple_size<Value>::value; }) {
    std::apply([&](auto&... each) { (for_each_tensor(each, f), ...); }, value);
  } else if constexpr (requires {
                         requires std::is_same_v<Value, std::vector<typename Value::value_type>>;
                         requires !std::is_same_v<typename Value::value_type, bool>;
                       }) {
    for (auto& each : value) for_each_tensor(each, f);
  }
}

template <class... T>
std::vector<Tensor> tensors_of(const T&... values) {
  std::vector<Tensor> all;
  (for_each_tensor(values, [&](const Tensor& x) { all.push_back(x); }), ...);
  return all;
}
template <class... T>
void put_tensors_of(const std::vector<Tensor>& given, T&... values) {
  auto next = given.begin();
  (for_each_tensor(values, [&](Tensor& x) { x = *next++; }), ...);
}

/// The common case, tensors to a tensor, compiled once. `inputs` are `count` of them.
Tensor call_between_hooks(const Module& module, const Tensor* const* inputs, std::size_t count, void* self,
                          Tensor (*forward)(void*, const Tensor*));

}  // namespace detail

/// module.forward(inputs...) between the module's hooks: what `operator()` of the layers does, and for modules of your
/// own that have none. Without hooks it costs the question whether there are any. Throws Error for a hook that changes
/// the number of tensors, and ShapeError or DTypeError for a gradient that it replaces by one that does not fit.
template <class M, class... Inputs>
auto call(M& module, const Inputs&... inputs) -> decltype(module.forward(inputs...)) {
  if (!detail::HooksOf::get(module)) [[likely]]
    return module.forward(inputs...);
  using Result = std::remove_cvref_t<decltype(module.forward(inputs...))>;
  if constexpr (std::is_same_v<Result, Tensor> && sizeof...(Inputs) > 0 && (std::is_same_v<Inputs, Tensor> && ...)) {
    const Tensor* const given[] = {&inputs...};
    return detail::call_between_hooks(module, given, sizeof...(Inputs), const_cast<std::remove_const_t<M>*>(&module),
                                      [](void* self, const Tensor* x) -> Tensor {
                                        return [&]<std::size_t... i>(std::index_sequence<i...>) {
                                          return static_cast<M*>(self)->forward(x[i]...);
                                        }
                                        (std::index_sequence_for<Inputs...>());
                                      });
  } else {
    detail::HookedCall hooked(module);
    std::tuple<Inputs...> given(inputs...);
    std::vector<Tensor> tensors = std::apply([](const auto&... each) { return detail::tensors_of(each...); }, given);
    hooked.before(tensors);
    std::apply([&](auto&... each) { detail::put_tensors_of(tensors, each...); }, given);
    Result result = std::apply([&](const auto&... each) { return module.forward(each...); }, given);
    tensors = detail::tensors_of(result);
    hooked.after(tensors);
    detail::put_tensors_of(tensors, result);
    return result;
  }
}

}  // namespace tendril::nn

TENDRIL_API_END
