#pragma once

#include "tendril/autograd/ops/lstm.h"
#include "tendril/tensor/tensor.h"

/// One step of the recurrent layers that are made of other operations. x_gates [batch, gates * hidden] is what the
/// input contributes, h [batch, hidden].
namespace tendril::nn::detail {

Tensor tanh_step(const Tensor& x_gates, const Tensor& h, const LstmWeights& weights);
Tensor relu_step(const Tensor& x_gates, const Tensor& h, const LstmWeights& weights);
Tensor gru_step(const Tensor& x_gates, const Tensor& h, const LstmWeights& weights);

}  // namespace tendril::nn::detail
