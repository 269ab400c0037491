#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "tendril/autograd/grad_mode.h"
#include "tendril/autograd/saved_hooks.h"
#include "tendril/tensor/export.h"
#include "tendril/tensor/random.h"
#include "tendril/tensor/tensor.h"

TENDRIL_API_BEGIN

/// Activation checkpointing: less memory for more time (Chen et al., "Training Deep Nets with Sublinear Memory Cost").
///
///   Tensor y = autograd::checkpoint([&](const Tensor& h) { return block.forward(h); }, x);
///
/// What the operations of `function` save for backward is not kept: when backward first wants any of it, the function
/// runs again (within the Autocast of the first time) and what it saves then is used, until the operations that saved
/// it have run. The result, the gradients (of inputs, and of whatever else the function uses: parameters, captured
/// tensors) and second derivatives are those of the plain call. Checkpoints nest: the inner one is run again within
/// what the outer one runs again.
///
/// This is PyTorch's non-reentrant form (torch.utils.checkpoint with use_reentrant=False), and there is no other: the
/// re-entrant one records nothing, runs a backward within backward, and so has no gradients for inputs that are not
/// arguments, none through autograd::grad and no second derivatives, and needs an argument that requires a gradient.
namespace tendril::autograd {

/// Of a checkpoint.
struct CheckpointOptions {
  /// Draws of the default generator in the second run are those of the first; afterwards the generator goes on where it
  /// was. Other threads that draw from it meanwhile may get numbers of either.
  bool preserve_rng_state = true;
  std::vector<Generator*> generators = {};  ///< others that the function draws from, likewise; they must outlive it
};

namespace detail {

class CheckpointFrame;

/// While it lives, what the calling thread saves is left to a second run.
class CheckpointScope {
 public:
  CheckpointScope(const std::vector<Tensor>& inputs, std::function<void(std::span<const Tensor>)> run_again,
                  const CheckpointOptions& options);
  ~CheckpointScope();
  CheckpointScope(const CheckpointScope&) = delete;
  CheckpointScope& operator=(const CheckpointScope&) = delete;

 private:
  std::shared_ptr<CheckpointFrame> frame_;
  SavedTensorHooks hooks_;
};

/// The tensors among the inputs are kept apart (SavedTensor), and are put back into a copy of the rest.
template <class T>
void take_tensors(T& input, std::vector<Tensor>& tensors) {
  if constexpr (std::is_same_v<T, Tensor>) {
    tensors.push_back(std::move(input));
    input = Tensor();
  } else if constexpr (std::is_same_v<T, std::vector<Tensor>>) {
    for (Tensor& tensor : input) take_tensors(tensor, tensors);
  }
}
template <class T>
void put_tensors(T& input, std::span<const Tensor>& tensors) {
  if constexpr (std::is_same_v<T, Tensor>) {
    input = tensors.front();
    tensors = tensors.subspan(1);
  } else if constexpr (std::is_same_v<T, std::vector<Tensor>>) {
    for (Tensor& tensor : input) put_tensors(tensor, tensors);
  }
}

}  // namespace detail

/// function(inputs...), whose intermediate results are computed again in backward. Inputs are Tensors, vectors of them,
/// and other values, which are copied, as is the function: what it refers to must live until backward has run.
///
/// The function must do the same both times: an operation that saves another tensor, or one that was changed in place
/// since (an optimizer's step, a written buffer), is an AutogradError in backward. It runs twice, so what it does
/// beside its result (running averages of batch normalisation, printing) is done twice; it must not make remote calls.
/// Where recording is off it is simply called.
///
/// Thread-safety: backward may run on another thread; the function then runs there.
template <class F, class... Inputs>
requires std::invocable<F&, const Inputs&...>
auto checkpoint(const CheckpointOptions& options, F function, const Inputs&... inputs) {
  if (!grad_enabled()) return function(inputs...);
  auto kept = std::make_shared<std::tuple<F, std::decay_t<Inputs>...>>(function, inputs...);
  std::vector<Tensor> tensors;
  std::apply([&](F&, auto&... all) { (detail::take_tensors(all, tensors), ...); }, *kept);
  auto run_again = [kept = std::move(kept)](std::span<const Tensor> given) {
    auto copy = *kept;
    std::apply(
        [&](F& f, auto&... all) {
          (detail::put_tensors(all, given), ...);
          (void)f(std::as_const(all)...);
        },
        copy);
  };
  const detail::CheckpointScope scope(tensors, std::move(run_again), options);
  return function(inputs...);
}
/// As above, of a function with several inputs.
template <class F, class... Inputs>
requires std::invocable<F&, const Inputs&...>
auto checkpoint(F function, const Inputs&... inputs) {
  return checkpoint(CheckpointOptions{}, std::move(function), inputs...);
}

namespace detail {
/// Throws Error unless there is a function and `segments` is in [1, functions].
void check_segments(std::size_t functions, int64_t segments);
}  // namespace detail

/// The functions one after the other, in `segments` parts, of which all but the last are checkpointed: what a part
/// saves is computed again when backward comes to it (PyTorch's checkpoint_sequential). `functions` is an
/// nn::Sequential, or a vector of what takes a tensor and gives one; it must live until backward has run. Throws Error
/// unless segments is at least 1 and at most the number of functions.
template <class Functions>
Tensor checkpoint_sequential(Functions& functions, int64_t segments, const Tensor& input,
                             const CheckpointOptions& options = {}) {
  const auto count = static_cast<std::size_t>(functions.size());
  detail::check_segments(count, segments);
  const auto run = [&functions](std::size_t begin, std::size_t end) {
    return [&functions, begin, end](const Tensor& x) {
      if constexpr (requires { functions.forward(x, begin, end); }) {
        return Tensor(functions.forward(x, begin, end));
      } else {
        Tensor y = x;
        for (std::size_t i = begin; i < end; ++i) y = functions[i](y);
        return y;
      }
    };
  };
  const std::size_t length = count / static_cast<std::size_t>(segments);
  Tensor x = input;
  std::size_t begin = 0;
  for (int64_t i = 1; i < segments; ++i, begin += length) x = checkpoint(options, run(begin, begin + length), x);
  return run(begin, count)(x);
}

}  // namespace tendril::autograd

TENDRIL_API_END
