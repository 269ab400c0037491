#pragma once

#include "tendril/tensor/detail/prepared_weight.h"
#include "tendril/tensor/export.h"
#include "tendril/tensor/geometry.h"
#include "tendril/tensor/tensor.h"

TENDRIL_API_BEGIN

namespace tendril::autograd::detail {

/// conv2d, or conv2d_relu (autograd/ops/conv.h), with the weight as kernels want it kept in `prepared`, which is this
/// weight's alone: on the CPU, of float32, but for what a checkpoint computes again. Elsewhere `prepared` gives its
/// memory back, but under Autocast, which computes with another weight.
Tensor conv2d_prepared(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvGeometry& geometry,
                       bool relu, tendril::detail::PreparedWeight& prepared);

}  // namespace tendril::autograd::detail

TENDRIL_API_END
