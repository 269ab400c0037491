#pragma once

#include "tendril/tensor/geometry.h"
#include "tendril/tensor/tensor.h"

namespace tendril {

/// out[n, o, i, j] = bias[o] + sum over c, k, l of weight[o, c, k, l] x[n, c', i stride + k dilation - padding, ...],
/// c' being channel c of o's group. x is [n, in, h, w] or [in, h, w], weight [out, in / groups, kernel h, kernel w],
/// bias [out] or undefined; one floating dtype (DTypeError); sums of a half type are in float32 and rounded once.
/// ShapeError for sizes that do not fit, Error for a geometry that makes no sense.
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, const ConvGeometry& geometry = {});

/// relu(conv2d(...)), with no tensor between the two where nothing is recorded.
Tensor conv2d_relu(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, const ConvGeometry& geometry = {});

}  // namespace tendril
