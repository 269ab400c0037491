#pragma once

#include "tendril/tensor/tensor.h"

namespace tendril::detail {

/// Gradients of the arguments of lstm_layer (autograd/ops/lstm.h).
struct LstmGradients {
  Tensor x_gates, weight_hh, h0, c0;
};

/// For gradients of its results (undefined: zero), by Tensor operations from the arguments alone: what a backward that
/// is recorded itself does.
LstmGradients lstm_gradients(const Tensor& x_gates, const Tensor& weight_hh, const Tensor& h0, const Tensor& c0,
                             bool reverse, const Tensor& d_output, const Tensor& d_c_n);

}  // namespace tendril::detail
