#pragma once

#include "tendril/tensor/export.h"
#include "tendril/tensor/tensor.h"

TENDRIL_API_BEGIN

namespace tendril {

/// (x - mean) / sqrt(var + eps) * weight + bias for each channel of x [batch, channels, ...], floating. weight and bias
/// are [channels] or undefined: 1 and 0. (Ioffe and Szegedy, "Batch Normalization", 2015)
/// Beside x of a half type the other four are of that type or float32; arithmetic is in float32, and each result is
/// rounded once.
///
/// With `training`, mean and (biased) variance are the batch's, and the running ones, if defined, move towards them by
/// `momentum`, the variance unbiased as PyTorch has it: running = (1 - momentum) running + momentum new. Without, mean
/// and variance are the running ones. An empty x leaves the running ones as they are.
/// Throws ShapeError for sizes that do not fit and for a single value per channel in training, DTypeError for dtypes
/// that differ.
Tensor batch_norm(const Tensor& x, const Tensor& running_mean, const Tensor& running_var, const Tensor& weight = {},
                  const Tensor& bias = {}, bool training = false, double momentum = 0.1, double eps = 1e-5);

/// Of batch_norm_relu.
struct BatchNormReluOptions {
  Tensor residual = {};  ///< of x's shape; undefined: none
  bool training = false;
  double momentum = 0.1;
  double eps = 1e-5;
};

/// relu(batch_norm(x, ...) + residual), in as few passes over memory as batch_norm alone takes where x and residual are
/// of one dtype on the CPU; elsewhere it is the three. Twice differentiable in x, weight, bias and residual. Throws as
/// batch_norm does, and ShapeError for a residual of another shape.
/// (PyTorch has it in its models for quantisation only, as torch.ao.nn.intrinsic.BNReLU2d.)
Tensor batch_norm_relu(const Tensor& x, const Tensor& running_mean, const Tensor& running_var,
                       const Tensor& weight = {}, const Tensor& bias = {}, const BatchNormReluOptions& options = {});

}  // namespace tendril

TENDRIL_API_END
