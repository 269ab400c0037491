#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "tendril/tensor/export.h"
#include "tendril/tensor/tensor.h"

TENDRIL_API_BEGIN

/// Derivatives of functions, as torch.autograd.functional's: what `backward` and `grad` give, put together.
///
///   const auto f = [](const Tensor& x) { return x.exp().sum({1}); };
///   Tensor jacobian = functional::jacobian(f, x);                 // of shape [sizes of f(x)..., sizes of x...]
///   auto [y, slope] = functional::jvp(f, x, direction);           // y = f(x), slope = J direction
///
/// A function is called with inputs of its own (detached copies that require gradients; with create_graph, tensors that
/// lead to the given ones) and records whatever the caller's grad mode is. It gives one tensor of one, or a list of a
/// list. Results have no history, unless create_graph asks for one. What an output does not depend on has derivative
/// zero; with `strict` it is an AutogradError that names both.
///
/// All run reverse mode only, on the calling thread: a Jacobian takes one backward for each element of the outputs, jvp
/// and hvp two (the double-backward trick: vjp is linear in v, and its transpose is jvp). vhp is cheaper than hvp, and
/// equal to it where second derivatives are continuous.
///
/// Errors: DTypeError for inputs or outputs that are not floating; ShapeError for a v whose sizes are not those of what
/// it is multiplied by, and for a function of several elements where a scalar one is needed; Error for no inputs, an
/// undefined one, or another number of them. What the function throws leaves through these.
namespace tendril::autograd::functional {

using Tensors = std::vector<Tensor>;                               ///< several inputs or outputs
using Function = std::function<Tensors(const Tensors& inputs)>;    ///< of several tensors, with several results
using UnaryFunction = std::function<Tensor(const Tensor& input)>;  ///< of one tensor, with one result

/// Of the functions below.
struct Options {
  bool create_graph = false;  ///< results can be differentiated with respect to the inputs
  bool strict = false;        ///< independence is an error
};

/// [output i][input j]: d output_i / d input_j, of shape [sizes of output i..., sizes of input j...].
std::vector<Tensors> jacobian(const Function& f, const Tensors& inputs, Options options = {});
Tensor jacobian(const UnaryFunction& f, const Tensor& input, Options options = {});

/// Of a function of one output of one element: [input i][input j], of shape [sizes of input i..., sizes of input j...].
std::vector<Tensors> hessian(const Function& f, const Tensors& inputs, Options options = {});
Tensor hessian(const UnaryFunction& f, const Tensor& input, Options options = {});

/// f(inputs), and v^T J: v is like the outputs (may be left out, as 1, for one output of one element), the product like
/// the inputs.
std::pair<Tensors, Tensors> vjp(const Function& f, const Tensors& inputs, const Tensors& v = {}, Options options = {});
std::pair<Tensor, Tensor> vjp(const UnaryFunction& f, const Tensor& input, const Tensor& v = {}, Options options = {});

/// f(inputs), and J v: v is like the inputs, the product like the outputs.
std::pair<Tensors, Tensors> jvp(const Function& f, const Tensors& inputs, const Tensors& v, Options options = {});
std::pair<Tensor, Tensor> jvp(const UnaryFunction& f, const Tensor& input, const Tensor& v, Options options = {});

/// f(inputs), of one element, and v^T H (vhp) or H v (hvp), H being f's Hessian: v and the product are like the inputs.
std::pair<Tensor, Tensors> vhp(const Function& f, const Tensors& inputs, const Tensors& v, Options options = {});
std::pair<Tensor, Tensor> vhp(const UnaryFunction& f, const Tensor& input, const Tensor& v, Options options = {});
/// The Hessian times v, with the value: two backward runs, no Hessian.
std::pair<Tensor, Tensors> hvp(const Function& f, const Tensors& inputs, const Tensors& v, Options options = {});
/// The Hessian times v, with the value: two backward runs, no Hessian.
std::pair<Tensor, Tensor> hvp(const UnaryFunction& f, const Tensor& input, const Tensor& v, Options options = {});

}  // namespace tendril::autograd::functional

TENDRIL_API_END
