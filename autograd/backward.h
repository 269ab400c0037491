#pragma once

#include <vector>

#include "tendril/tensor/tensor.h"

namespace tendril::autograd {

/// Adds d(roots)/d(leaf) to `.grad` of every leaf that the roots were computed from.
/// `gradients`: one for each root, of its shape and dtype, or empty; undefined ones are ones, which only a one-element
/// root may leave out. `retain_graph` keeps what a second backward needs; `create_graph` (implies it) records the
/// formulas, so that the gradients can be differentiated; `.grad` then holds the graph that holds the leaf, which keeps
/// both alive until it is cleared (zero_grad): prefer grad() below.
/// Throws AutogradError for a root that requires no gradient; ShapeError and DTypeError for a gradient that does not
/// fit.
void backward(const std::vector<Tensor>& roots, const std::vector<Tensor>& gradients = {}, bool retain_graph = false,
              bool create_graph = false);

/// d(outputs)/d(inputs), one for each input, leaves or intermediate results; `.grad` is left alone. Only the part of
/// the graph between inputs and outputs runs. Throws AutogradError for an input that requires no gradient, and, unless
/// `allow_unused`, for one that the outputs do not depend on; with it, its gradient is undefined.
std::vector<Tensor> grad(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                         const std::vector<Tensor>& grad_outputs = {}, bool retain_graph = false,
                         bool create_graph = false, bool allow_unused = false);

}  // namespace tendril::autograd
