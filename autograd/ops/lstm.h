#pragma once

#include "tendril/tensor/export.h"
#include "tendril/tensor/tensor.h"

TENDRIL_API_BEGIN

namespace tendril {

/// What a recurrent layer gives for a sequence of T steps and a batch of N.
struct LstmLayerResult {
  Tensor output;  ///< [T, N, H]: h after every step. The last one is at T - 1, or at 0 in reverse.
  Tensor c_n;     ///< [N, H]: c after the last step
};

/// One direction of one layer of a long short-term memory (Hochreiter and Schmidhuber, 1997; with forget gates, Gers,
/// Schmidhuber and Cummins, 2000), in PyTorch's form:
///
///     i, f, g, o = x_gates[t] + h W^T           (H columns each)
///     c <- sigmoid(f) c + sigmoid(i) tanh(g)
///     h <- sigmoid(o) tanh(c)
///
/// x_gates [T, N, 4 H] is what the input and the biases contribute, for all steps at once: it is one matrix product.
/// weight_hh is [4 H, H]; h0 and c0 are [N, H], undefined for zeros. `reverse` walks from the last step to the first.
/// One node for the whole sequence; twice differentiable in all four. Throws ShapeError (also for T = 0), DTypeError.
LstmLayerResult lstm_layer(const Tensor& x_gates, const Tensor& weight_hh, const Tensor& h0, const Tensor& c0,
                           bool reverse = false);

/// Parameters of one direction of one layer. The biases are both undefined or neither.
struct LstmWeights {
  Tensor weight_ih = {}, weight_hh = {};  ///< [4 H, I] and [4 H, H], or [4 H, P] beside weight_hr
  Tensor bias_ih = {}, bias_hh = {};      ///< [4 H]
  /// [P, H]: h is weight_hr (sigmoid(o) tanh(c)) (Sak, Senior and Beaufays, "Long Short-Term Memory Based Recurrent
  /// Neural Network Architectures", 2014); undefined: without. Such a layer is made of other operations.
  Tensor weight_hr = {};
};

/// The same from the layer's input x [T, N, I]:
///
///     lstm_layer(linear(x, weight_ih, bias_ih + bias_hh), weight_hh, h0, c0, reverse)
///
/// which is what it does, unless the device has a function for layers as a whole: then that, as one node. With
/// weight_hr output is [T, N, P] and h0 [N, P]. Twice differentiable in all of its arguments. Throws as the two do.
LstmLayerResult lstm_layer(const Tensor& x, const LstmWeights& weights, const Tensor& h0, const Tensor& c0,
                           bool reverse = false);

}  // namespace tendril

TENDRIL_API_END
