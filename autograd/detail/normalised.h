#pragma once

#include "tendril/tensor/tensor.h"

/// Normalisation of numbers whose variance the kernels cannot represent, for instance 1e20 in float32.
namespace tendril::autograd::detail {

/// Whether the variances of a batch can be used. A variance near 0 matters only if it is not small beside eps.
bool variances_in_range(const Tensor& variances, double eps);
/// The same of 1 / sqrt(variance + eps).
bool rstd_in_range(const Tensor& rstd);

/// x normalised over `dims`, (x - mean) / sqrt(variance + eps), by recorded operations in float64 on x divided by its
/// largest element. Lines with an infinite or NaN element become NaN.
struct Rescaled {
  Rescaled(const Tensor& x, const Dims& dims, bool centred, double eps);

  Tensor xhat;            ///< float64, x's shape
  Tensor mean, variance;  ///< of x; float64, unrecorded; `dims` are kept as 1
};

/// value times weight plus bias, of those that are defined, as `dtype`.
Tensor scaled_and_shifted(const Tensor& value, const Tensor& weight, const Tensor& bias, DType dtype);

}  // namespace tendril::autograd::detail
