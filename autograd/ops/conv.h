#pragma once

#include "tendril/tensor/geometry.h"
#include "tendril/tensor/tensor.h"

namespace tendril {

/// out[n, o, i, j] = bias[o] + sum over c, k, l of weight[o, c, k, l] x[n, c', i stride + k dilation - padding, ...],
/// c' being channel c of o's group. x is [n, in, h, w] or [in, h, w], weight [out, in / groups, kernel h, kernel w],
/// bias [out] or undefined; one dtype (DTypeError), float32 or float64. ShapeError for sizes that do not fit, Error for
/// a geometry that makes no sense.
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, const ConvGeometry& geometry = {});

}  // namespace tendril
