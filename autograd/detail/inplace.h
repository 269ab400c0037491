#pragma once

#include "tendril/autograd/grad_mode.h"
#include "tendril/autograd/history.h"
#include "tendril/tensor/raw.h"
#include "tendril/tensor/tensor.h"

/// What operations in place share. What they may change is checked first (history.h); while recording, the value is
/// computed by the out-of-place operation from a copy of the elements as they were, so that it keeps what its formula
/// needs, and is then written over them.
namespace tendril::autograd::detail {

/// Whether something is to be recorded: any of them requires a gradient.
template <class... Operands>
bool recorded(const Operands&... operands) {
  return autograd::grad_enabled() && (autograd::requires_grad(operands) || ...);
}

/// The tensor with its place in the graph, but elements of its own.
Tensor snapshot(const Tensor& x);

/// ShapeError unless `operand` broadcasts to the target's sizes.
void check_target(const Tensor& target, const Dims& operand, const char* op);

/// Writes a recorded result over the target and gives it its history. ShapeError and DTypeError where it does not fit.
void overwrite(const Tensor& target, const Tensor& result, const char* op);

/// After all elements of x were written with what, as far as gradients go, does not depend on what was there.
void rebase_as_filled(const Tensor& x, bool records);

/// Recorded or not: `compute` makes the new value of a tensor, `write` changes the elements at once.
template <class Compute, class Write, class... Operands>
void change(const Tensor& target, const char* op, Compute compute, Write write, const Operands&... operands) {
  tendril::detail::check_defined(target, op);
  (tendril::detail::check_defined(operands, op, "the operand"), ...);
  const bool records = recorded(target, operands...);
  autograd::check_inplace(target, records);
  if (records && is_floating(target.dtype())) {
    overwrite(target, compute(snapshot(target)), op);
  } else {
    write();
    target.impl()->storage->bump_version();
  }
}

/// ... for operations that make a tensor of their own either way.
template <class Compute>
void replace(const Tensor& target, const char* op, Compute compute) {
  change(target, op, compute, [&] {
    const NoGrad no_grad;
    const Tensor result = compute(target);
    check_target(target, result.sizes(), op);
    tendril::detail::check_category(target, result.dtype(), op);
    raw::copy_(target, result);
  });
}

}  // namespace tendril::autograd::detail
