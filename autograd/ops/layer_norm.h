#pragma once

#include "tendril/tensor/export.h"
#include "tendril/tensor/tensor.h"

TENDRIL_API_BEGIN

/// Normalisation over the last dimensions, floating, twice differentiable in all arguments. Beside x of a half type
/// weight and bias are of that type or float32; arithmetic is in float32, and each result is rounded once.
namespace tendril {

/// (x - mean) / sqrt(var + eps) * weight + bias, with mean and (biased) variance over the last dimensions of x, those
/// of `normalized_shape`. weight and bias are of that shape or undefined: 1 and 0. (Ba, Kiros and Hinton, "Layer
/// Normalization", 2016)
/// On the CPU forward reads x once and writes once, backward reads x and g once and writes once.
/// Throws ShapeError unless x's last dimensions are normalized_shape (at least one, none of them 0) and weight and bias
/// have it, DTypeError for dtypes that differ, Error for devices that do.
Tensor layer_norm(const Tensor& x, const Dims& normalized_shape, const Tensor& weight = {}, const Tensor& bias = {},
                  double eps = 1e-5);

/// x / sqrt(mean(x^2) + eps) * weight, over the last dimensions as above (Zhang and Sennrich, "Root Mean Square Layer
/// Normalization", 2019). Throws as layer_norm does.
Tensor rms_norm(const Tensor& x, const Dims& normalized_shape, const Tensor& weight = {}, double eps = 1e-5);

/// layer_norm of each of `groups` groups of channels of x [batch, channels, ...], then times weight plus bias of each
/// channel, [channels] or undefined. (Wu and He, "Group Normalization", 2018)
/// Throws ShapeError unless x has two dimensions or more, channels that `groups` divides, and no size 0 behind the
/// batch; as layer_norm otherwise.
Tensor group_norm(const Tensor& x, int64_t groups, const Tensor& weight = {}, const Tensor& bias = {},
                  double eps = 1e-5);

}  // namespace tendril

TENDRIL_API_END
