#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tendril/tensor/export.h"
#include "tendril/tensor/tensor.h"

TENDRIL_API_BEGIN

/// Proof of derivatives: what backward says against central differences of the function itself.
namespace tendril::autograd {

using DifferentiableFunction =
    std::function<std::vector<Tensor>(const std::vector<Tensor>& inputs)>;  ///< what is checked

/// How exactly gradcheck compares. Whatever `nondeterminism` says, two runs on a CUDA device may differ by 1e-12 of a
/// value where cuda::set_deterministic is off: its threads add in any order.
struct GradcheckOptions {
  double eps = 1e-6;          ///< step of the differences
  double atol = 1e-5;         ///< allowed: atol + rtol * |numerical|
  double rtol = 1e-3;         ///< the part of it that grows with the derivative
  double nondeterminism = 0;  ///< how far two equal runs may differ, e.g. where threads add in any order
};

/// Whether all agreed, and if not, what differs.
struct GradcheckResult {
  bool ok = true;       ///< all derivatives agree
  std::string message;  ///< what differs: the output, the input, the element of each, both values

  explicit operator bool() const noexcept { return ok; }  ///< whether all agreed
};

/// Compares, for every floating output and every input that requires a gradient, the whole Jacobian. Also checks that
/// a zero gradient gives zeros, that gradients of other layouts (transposed, broadcast) give the same, that a run that
/// is recorded (create_graph) gives the same, and that two runs do. Functions of no elements are run, too.
/// `f` must be a function of its inputs only (seeded, if it draws random numbers) and must not change them.
/// Inputs that require a gradient must be float64 (DTypeError): differences of float32 are too coarse. Their elements
/// should keep away from kinks by more than eps.
GradcheckResult gradcheck(const DifferentiableFunction& f, const std::vector<Tensor>& inputs,
                          const GradcheckOptions& options = {});

/// gradcheck of f's gradient as a function of the inputs and of the outputs' gradients.
GradcheckResult gradgradcheck(const DifferentiableFunction& f, const std::vector<Tensor>& inputs,
                              const GradcheckOptions& options = {});

}  // namespace tendril::autograd

TENDRIL_API_END
