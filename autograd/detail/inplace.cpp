#include "tendril/autograd/detail/inplace.h"

namespace tendril::autograd::detail {

Tensor snapshot(const Tensor& x) {
  Tensor copy = raw::clone(x);
  autograd::set_history(copy, Ref<autograd::Node>(autograd::grad_fn(x)), x.impl()->output_number);
  return copy;
}

void check_target(const Tensor& target, const Dims& operand, const char* op) {
  if (target.sizes() == operand) return;
  const Dims all = broadcast_shapes(target.sizes(), operand, op);
  TENDRIL_CHECK_AS(ShapeError, all == target.sizes(), op, ": output with shape ", target.sizes(),
                   " doesn't match the broadcast shape ", all);
}

void overwrite(const Tensor& target, const Tensor& result, const char* op) {
  check_target(target, result.sizes(), op);
  tendril::detail::check_category(target, result.dtype(), op);
  const Tensor fitting = result.to(target.dtype());
  raw::copy_(target, fitting);
  autograd::rebase_history(target, fitting);
}

}  // namespace tendril::autograd::detail
