#pragma once

#include <cstdint>
#include <vector>

#include "tendril/tensor/tensor.h"

/// ctc_loss (autograd/ops/ctc_loss.h) made of other operations: for devices that have no pass of their own, and, the
/// gradient, for what is differentiated twice.
namespace tendril::autograd::detail {

/// What the recursion reads, made on the host from targets and lengths. States are blank, label, blank, label, ...
struct CtcPlan {
  int64_t steps, batch, states;
  std::vector<int64_t> input_lengths;
  std::vector<int64_t> classes;     // [batch, states]
  std::vector<bool> starts, skips;  // [batch, states]: may begin there; may come from two states before
  std::vector<int64_t> ends;        // [batch, 2]: the last blank, and the last label (or that blank again)
  std::vector<bool> has_labels, empty_input;
  std::vector<double> infinite_if_empty;
};

/// -log p of each target, [N], for x [T, N, C]; infinite where it cannot be. Differentiable.
Tensor ctc_losses(const Tensor& x, const CtcPlan& plan);
/// The gradient of the sum of g [N] times them, like x. Differentiable in x and g.
Tensor ctc_gradient(const Tensor& x, const Tensor& g, const CtcPlan& plan);

}  // namespace tendril::autograd::detail
