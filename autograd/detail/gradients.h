#pragma once

#include "tendril/autograd/node.h"
#include "tendril/tensor/export.h"
#include "tendril/tensor/tensor.h"

TENDRIL_API_BEGIN

/// What the engine does to a gradient between two nodes.
namespace tendril::autograd {

// What is left to do where the inline functions below find that it is not nothing.
void refit(Tensor& gradient, const OutputInfo& expected, const Node& node, uint32_t i);
void add_to(Tensor& sum, Tensor& gradient);

/// Makes what `node` gave for its input i fit the tensor that it is the gradient of, or says why it cannot.
/// Undoes broadcasting and promotion; throws AutogradError for another device, shape or category.
inline void fit(Tensor& gradient, const Edge& edge, const Node& node, uint32_t i) {
  const OutputInfo& expected = edge.node->outputs()[edge.input_nr];
  if (gradient.sizes() == expected.sizes && gradient.dtype() == expected.dtype && gradient.device() == expected.device)
      [[likely]] {
    return;
  }
  refit(gradient, expected, node, i);
}

/// Adds a further use's gradient, in place where nobody can see it. Undefined is zero. `gradient` is used up.
inline void add_up(Tensor& sum, Tensor&& gradient) {
  if (!gradient.defined()) return;
  if (!sum.defined()) {
    sum = std::move(gradient);
  } else {
    add_to(sum, gradient);
  }
}

}  // namespace tendril::autograd

TENDRIL_API_END
