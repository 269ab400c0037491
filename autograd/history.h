#pragma once

#include <concepts>
#include <utility>

#include "tendril/autograd/accumulate_grad.h"
#include "tendril/autograd/grad_mode.h"
#include "tendril/autograd/node.h"
#include "tendril/tensor/export.h"
#include "tendril/tensor/tensor.h"

TENDRIL_API_BEGIN

/// How tensors hang in the graph. A tensor's `history` is the node that made it (it is output `output_number` of it),
/// an AccumulateGrad if it is a leaf that requires a gradient, or null.
///
/// A differentiable view knows the tensor it is a view of (never itself a view). An in-place operation on either puts a
/// new node on the base; the other views find at their next use that their elements' version has moved, and derive
/// their history from the base's anew. Several threads may be the first to use one at the same time.
namespace tendril::autograd {

namespace detail {
/// The same elements, shape and strides; no history, not a view.
Tensor alias(const Tensor& tensor);
/// After a leaf was given elements of another dtype or device: a new node, since the old one speaks of the old ones,
/// with the same hooks and this gradient. Nothing for what never required one.
void renew_leaf(const Tensor& leaf, Tensor gradient);
/// In no graph, and not a view that might yet be: most tensors of a program that does not train.
inline bool is_plain(const Tensor& tensor) noexcept {
  return !tensor.defined() || (!tensor.impl()->view_base && !tensor.impl()->history);  // of a view not to be asked
}
}  // namespace detail

/// The node that `tensor`'s gradient flows to, null if it requires none.
[[gnu::always_inline]] inline Node* grad_fn(const Tensor& tensor) {
  tendril::detail::check_defined(tensor, "grad_fn");
  return static_cast<Node*>(tensor.impl()->current_history());
}

inline Edge gradient_edge(const Tensor& tensor) {
  Node* node = grad_fn(tensor);
  return {Ref<Node>(node), tensor.impl()->output_number};
}

inline bool requires_grad(const Tensor& tensor) { return tensor.defined() && grad_fn(tensor) != nullptr; }

/// Makes `tensor` output `output_number` of `node`.
[[gnu::always_inline]] inline void set_history(const Tensor& tensor, Ref<Node> node,
                                               uint32_t output_number = 0) noexcept {
  tensor.impl()->history = std::move(node);
  tensor.impl()->output_number = output_number;
}

namespace detail {
template <class N, std::same_as<Tensor>... Inputs>
[[gnu::noinline]] N* record(const Tensor& output, const Inputs&... inputs) {
  if (!autograd::grad_enabled() || !is_floating(output.dtype())) return nullptr;
  Node* const producers[] = {(inputs.defined() ? grad_fn(inputs) : nullptr)...};
  bool recorded = false;
  for (const Node* producer : producers) recorded |= producer != nullptr;
  if (!recorded) return nullptr;
  N* node = new N;  // without parentheses, which would fill the whole object with zeros first
  Ref<Node> owner = Ref<Node>::first(node);
  int i = 0;
  const auto connect = [&](const Tensor& input) {
    if (producers[i]) node->set_edge(i, {Ref<Node>(producers[i]), input.impl()->output_number});
    ++i;
  };
  (connect(inputs), ...);
  node->set_output(0, output);
  set_history(output, std::move(owner));
  return node;
}
}  // namespace detail

/// Records `output = op(inputs...)`: a new N with its edges, which is now the history of `output`; null if nothing is
/// to be recorded. The caller saves what the formula needs: after all that can throw, `n->save(...)`.
template <class N, std::same_as<Tensor>... Inputs>
N* track(const Tensor& output, const Inputs&... inputs) {
  if ((detail::is_plain(inputs) && ...)) return nullptr;  // small enough to be inlined, and most often all there is
  return detail::record<N>(output, inputs...);
}

/// Marks `view` as a differentiable view of `base` (or of what `base` is a view of). Elements must be shared already.
void mark_view(const Tensor& view, const Tensor& base);

// ---- in-place operations

/// Throws AutogradError if `target` may not be changed in place while recording: it is a leaf that requires a gradient,
/// a view of one, one of several views made by one call, or a view made under NoGrad. `recorded` says whether any
/// operand requires a gradient; if none does, or under NoGrad, everything may be changed.
void check_inplace(const Tensor& target, bool recorded);

/// After the elements of `target` were overwritten by the (recorded or not) value `result`: bumps the version and makes
/// `target`'s history that of `result`. On a view, the history goes to the base ("CopySlices") and the view's is
/// derived.
void rebase_history(const Tensor& target, const Tensor& result);

}  // namespace tendril::autograd

TENDRIL_API_END
