#pragma once

#include "tendril/tensor/tensor.h"

namespace tendril {

/// (x - mean) / sqrt(var + eps) * weight + bias for each channel of x [batch, channels, ...], float32 or float64.
/// weight and bias are [channels] or undefined: 1 and 0. (Ioffe and Szegedy, "Batch Normalization", 2015)
///
/// With `training`, mean and (biased) variance are the batch's, and the running ones, if defined, move towards them by
/// `momentum`, the variance unbiased as PyTorch has it: running = (1 - momentum) running + momentum new. Without, mean
/// and variance are the running ones. An empty x leaves the running ones as they are.
/// Throws ShapeError for sizes that do not fit and for a single value per channel in training, DTypeError for dtypes
/// that differ.
Tensor batch_norm(const Tensor& x, const Tensor& running_mean, const Tensor& running_var, const Tensor& weight = {},
                  const Tensor& bias = {}, bool training = false, double momentum = 0.1, double eps = 1e-5);

}  // namespace tendril
