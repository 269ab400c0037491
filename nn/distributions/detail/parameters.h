#pragma once

#include <utility>

#include "tendril/tensor/random.h"
#include "tendril/tensor/tensor.h"

/// What distributions of elements share. `op` is the distribution's name.
namespace tendril::distributions::detail {

/// Throws DTypeError unless it is float32 or float64.
void check_parameter(const char* op, const char* name, const Tensor& x);
/// Both in their common shape. Throws ShapeError, DTypeError and Error.
std::pair<Tensor, Tensor> broadcast(const char* op, const char* a_name, const Tensor& a, const char* b_name,
                                    const Tensor& b);
/// Throws Error where not all of `valid` (bool) hold; not for a device's, which would have to be waited for.
void check_values(const char* op, const char* name, const Tensor& valid, const char* expected);
/// A value to be judged: Throws DTypeError unless it is of x's dtype, ShapeError unless both broadcast.
void check_value(const char* op, const Tensor& value, const Tensor& x);

/// Away from 0 and 1, where the logarithm's value or gradient is infinite. Differentiable.
Tensor clamp_probs(const Tensor& probs);

Dims sample_sizes(const Dims& sample_shape, const Dims& batch_shape);

}  // namespace tendril::distributions::detail
