#include "tendril/autograd/accumulate_grad.h"

#include "tendril/autograd/grad_mode.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/tensor/raw.h"

namespace tendril::autograd {

void AccumulateGrad::accumulate(Tensor gradient) {
  std::lock_guard lock(mutex_);
  if (frozen_) return;
  if (grad_enabled()) {
    grad_ = grad_.defined() ? grad_ + gradient : gradient.clone();
  } else if (!grad_.defined()) {
    grad_ = uniquely_owned(gradient) && !gradient.impl()->history ? std::move(gradient) : raw::clone(gradient);
  } else if (grad_.impl()->history || is_expanded(grad_)) {
    grad_ = grad_ + gradient;  // made by an earlier create_graph: its graph must keep its elements
  } else {
    raw::binary_(Binary::add, grad_, gradient);
    grad_.impl()->storage->bump_version();
  }
}

Tensor AccumulateGrad::grad() const {
  std::lock_guard lock(mutex_);
  return grad_;
}

void AccumulateGrad::set_grad(Tensor gradient) {
  std::lock_guard lock(mutex_);
  std::swap(grad_, gradient);  // the old one dies with the argument, after the lock is given back
}

void AccumulateGrad::set_frozen(bool frozen) {
  std::lock_guard lock(mutex_);
  frozen_ = frozen;
}

}  // namespace tendril::autograd
