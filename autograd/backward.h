#pragma once

#include <vector>

#include "tendril/tensor/export.h"
#include "tendril/tensor/tensor.h"

TENDRIL_API_BEGIN

namespace tendril::autograd {

/// Adds d(roots)/d(leaf) to `.grad` of every leaf that the roots were computed from.
/// `gradients`: one for each root, of its shape and dtype, or empty; undefined ones are ones, which only a one-element
/// root may leave out. Throws AutogradError for a root that requires no gradient; ShapeError and DTypeError for a
/// gradient that does not fit. (BackwardOptions: tensor/tensor.h.)
void backward(const std::vector<Tensor>& roots, const std::vector<Tensor>& gradients = {},
              BackwardOptions options = {});

/// Of autograd::grad.
struct GradOptions {
  bool retain_graph = false;       ///< keep what a second backward over the same graph needs; create_graph implies it
  bool create_graph = false;       ///< record the formulas, so that the gradients can be differentiated
  bool allow_unused = false;       ///< an input that the outputs do not depend on has an undefined gradient, no error
  bool materialize_grads = false;  ///< ... a gradient of zeros; implies allow_unused
};

/// d(outputs)/d(inputs), one for each input, leaves or intermediate results; `.grad` is left alone. Only the part of
/// the graph between inputs and outputs runs. Throws as backward, and AutogradError for an input that requires no
/// gradient and, unless the options allow it, for one that the outputs do not depend on.
std::vector<Tensor> grad(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                         const std::vector<Tensor>& grad_outputs = {}, GradOptions options = {});

}  // namespace tendril::autograd

TENDRIL_API_END
