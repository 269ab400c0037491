#pragma once

#include "tendril/autograd/node.h"
#include "tendril/tensor/tensor.h"

/// What the engine does to a gradient between two nodes.
namespace tendril::autograd {

/// Makes what `node` gave for its input i fit the tensor that it is the gradient of, or says why it cannot.
/// Undoes broadcasting and promotion; throws AutogradError for another device, shape or category.
void fit(Tensor& gradient, const Edge& edge, const Node& node, uint32_t i);

/// Adds a further use's gradient, in place where nobody can see it. Undefined is zero.
void add_up(Tensor& sum, Tensor gradient);

}  // namespace tendril::autograd
