#include "tendril/dist/autograd/gradients.h"

#include "tendril/autograd/accumulate_grad.h"
#include "tendril/autograd/detail/gradients.h"
#include "tendril/autograd/history.h"
#include "tendril/tensor/raw.h"

namespace tendril::dist::autograd {

Tensor Gradients::find(const Tensor& leaf) const {
  TENDRIL_CHECK_AS(AutogradError, leaf.defined() && leaf.requires_grad() && leaf.is_leaf(),
                   "get_gradients: the tensor ",
                   !leaf.defined()        ? "is undefined"
                   : leaf.requires_grad() ? "is not a leaf"
                                          : "does not require a gradient",
                   ", expected a leaf that requires a gradient");
  const auto found = entries_.find(tendril::autograd::grad_fn(leaf));
  return found == entries_.end() ? Tensor() : found->second.gradient;
}

Tensor Gradients::at(const Tensor& leaf) const {
  Tensor gradient = find(leaf);
  TENDRIL_CHECK_AS(AutogradError, gradient.defined(),
                   "get_gradients: no backward of this context has reached the leaf ", "of shape ", leaf.sizes(),
                   " on this worker");
  return gradient;
}

void Gradients::scale(const Tensor& leaf, double factor) {
  const auto found = entries_.find(tendril::autograd::grad_fn(leaf));
  if (found == entries_.end()) return;
  Tensor& gradient = found->second.gradient;
  gradient = raw::cast(raw::binary(Binary::mul, gradient, Scalar(factor)), gradient.dtype());
}

void Gradients::add(const Ref<tendril::autograd::Node>& leaf, Tensor gradient) {
  Entry& entry = entries_[leaf.get()];
  if (!entry.leaf) {
    entry.leaf = leaf;
    // Several leaves may receive the same tensor; each needs a separate gradient, which may be changed.
    entry.gradient = tendril::autograd::uniquely_owned(gradient) ? std::move(gradient) : raw::clone(gradient);
  } else {
    tendril::autograd::add_up(entry.gradient, std::move(gradient));
  }
}

void Gradients::set(const Ref<tendril::autograd::Node>& leaf, Tensor gradient) {
  entries_[leaf.get()] = {leaf, std::move(gradient)};
}

}  // namespace tendril::dist::autograd
