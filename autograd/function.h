#pragma once

#include <string>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include "tendril/autograd/autocast.h"
#include "tendril/autograd/history.h"
#include "tendril/autograd/node.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

/// Differentiable functions of the user's own.
///
///   struct Cube : autograd::Function<Cube> {
///     static Tensor forward(FunctionContext& ctx, const Tensor& x) {
///       ctx.save_for_backward({x});
///       return x * x * x;
///     }
///     static std::vector<Tensor> backward(FunctionContext& ctx, const std::vector<Tensor>& grads) {
///       const Tensor x = ctx.saved_tensors()[0];
///       return {grads[0] * x * x * 3};
///     }
///   };
///   Tensor y = Cube::apply(x);
///
/// `forward` gets the arguments of `apply`, tensors or not, and returns a Tensor or a std::vector<Tensor>; nothing it
/// does is recorded, and inputs that it changes in place it marks (mark_dirty) and returns. `backward` gets a gradient
/// for each output (zeros where there is none) and returns one for each argument, undefined for those that are no
/// tensors or need none; it is written in Tensor operations, so that it can be differentiated in turn. A nested `struct
/// Context : FunctionContext` may carry more than tensors from one to the other, and a `static constexpr const char*
/// kName` names the function in errors.
namespace tendril::autograd {

class FunctionNode;

/// What forward leaves for backward.
class FunctionContext {
 public:
  /// Inputs and outputs of the function. Other tensors may be kept as members of a Context, unchecked.
  void save_for_backward(std::vector<Tensor> tensors) { to_save_ = std::move(tensors); }
  /// In backward: those. Throws AutogradError if they were changed in place, or freed by an earlier backward.
  std::vector<Tensor> saved_tensors() const;
  /// In backward: whether the gradient of argument i is wanted.
  bool needs_input_grad(int i) const;
  /// In forward, before it changes them in place: these inputs, each of which must then be an output. As after any
  /// change in place, the tensor's history is this call, and views of it, or what it is a view of, follow. Throws
  /// AutogradError, while nothing has changed yet, for one that may not be changed (a leaf that requires a gradient,
  /// ...).
  void mark_dirty(const std::vector<Tensor>& inputs);
  /// In forward: this output has no gradient.
  void mark_non_differentiable(const Tensor& output) { non_differentiable_.push_back(output); }

 private:
  friend class FunctionNode;
  const FunctionNode* node_ = nullptr;
  bool recorded_ = false;  // while in forward
  std::vector<Tensor> to_save_, non_differentiable_, dirty_;
};

/// One call of a user's function.
class FunctionNode : public Node {
 public:
  const char* name() const noexcept override { return name_.c_str(); }
  void apply(std::span<Tensor> output_grads, std::span<Tensor> input_grads) override;

  /// Begins the forward half.
  static void begin(FunctionContext& ctx, bool recorded) noexcept { ctx.recorded_ = recorded; }
  /// Ends the forward half: the outputs get their history if `recorded`; the context's tensors are saved.
  void finish(FunctionContext& ctx, std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs, bool recorded);

 protected:
  FunctionNode(std::string name, std::size_t arguments);
  /// The user's formula: gradients of the inputs, in their order.
  virtual std::vector<Tensor> backward(const std::vector<Tensor>& grads) = 0;

 private:
  friend class FunctionContext;

  std::string name_;
  const AutocastOptions autocast_ = autocast_state();  // what forward had
  std::vector<Edge> edges_;
  std::vector<OutputInfo> outputs_;
  std::vector<Tensor> pending_;
  std::vector<SavedTensor> saved_;
};

namespace detail {

std::string demangled(const std::type_info& type);

template <class F>
std::string function_name() {
  if constexpr (requires { F::kName; }) {
    return F::kName;
  } else {
    return demangled(typeid(F)) + "Backward";
  }
}

template <class F>
class FunctionNodeOf final : public FunctionNode {
 public:
  explicit FunctionNodeOf(std::size_t arguments) : FunctionNode(function_name<F>(), arguments) {}
  typename F::Context ctx;  ///< what forward kept for backward

 private:
  std::vector<Tensor> backward(const std::vector<Tensor>& grads) override { return F::backward(ctx, grads); }
  void destroy_now() noexcept override { delete this; }
};

}  // namespace detail

/// A differentiable operation of a user's: the head of this file has an example.
template <class Derived>
struct Function {
  using Context = FunctionContext;  ///< what forward and backward get

  /// Runs Derived::forward, and records it where an argument requires a gradient.
  template <class... Args>
  static auto apply(const Args&... args) {
    auto* node = new detail::FunctionNodeOf<Derived>(sizeof...(Args));
    const Ref<Node> owner(node);
    std::vector<Tensor> inputs;
    int i = 0;
    const auto connect = [&](const auto& arg) {
      if constexpr (std::is_same_v<std::remove_cvref_t<decltype(arg)>, Tensor>) {
        inputs.push_back(arg);
        if (arg.defined()) node->set_edge(i, gradient_edge(arg));
      }
      ++i;
    };
    (connect(args), ...);
    bool recorded = false;
    for (const Edge& edge : node->edges()) recorded |= grad_enabled() && edge;
    FunctionNode::begin(node->ctx, recorded);

    const auto forward = [&] {
      const NoGrad no_grad;
      return Derived::forward(node->ctx, args...);
    };
    auto result = forward();
    if constexpr (std::is_same_v<decltype(result), Tensor>) {
      std::vector<Tensor> outputs{std::move(result)};
      node->finish(node->ctx, outputs, inputs, recorded);
      return std::move(outputs[0]);
    } else {
      static_assert(std::is_same_v<decltype(result), std::vector<Tensor>>,
                    "forward returns a Tensor or a std::vector<Tensor>");
      node->finish(node->ctx, result, inputs, recorded);
      return result;
    }
  }
};

}  // namespace tendril::autograd

TENDRIL_API_END
