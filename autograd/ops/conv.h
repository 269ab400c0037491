#pragma once

#include "tendril/tensor/export.h"
#include "tendril/tensor/geometry.h"
#include "tendril/tensor/tensor.h"

TENDRIL_API_BEGIN

namespace tendril {

/// out[n, o, i, j] = bias[o] + sum over c, k, l of weight[o, c, k, l] x[n, c', i stride + k dilation - padding, ...],
/// c' being channel c of o's group. x is [n, in, h, w] or [in, h, w], weight [out, in / groups, kernel h, kernel w],
/// bias [out] or undefined; one floating dtype (DTypeError); sums of a half type are in float32 and rounded once. On
/// the CPU, integers too, slowly and except for the transposes: sums wrap around. ShapeError for sizes that do not fit,
/// Error for a geometry that makes no sense.
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, const ConvGeometry& geometry = {});

/// relu(conv2d(...)), with no tensor between the two where nothing is recorded.
Tensor conv2d_relu(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, const ConvGeometry& geometry = {});

/// The transpose of conv2d with the same weight and geometry, which takes its results' shape to its images': the map
/// that gives a convolution's gradient. x is [n, in, h, w] or [in, h, w], weight [in, out / groups, kernel h, kernel
/// w], bias [out] or undefined, the result [n, out, (h - 1) stride - 2 padding + (kernel - 1) dilation + 1 +
/// output_padding, ...]. `output_padding` says which of the sizes that conv2d takes to h is meant: it is below the
/// stride or the dilation. dtypes and errors as conv2d.
Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        const ConvGeometry& geometry = {}, Size2 output_padding = 0);

/// How a window moves along sequences [..., length]; as ConvGeometry.
struct Conv1dGeometry {
  int64_t stride = 1;
  int64_t padding = 0;  ///< on either side
  int64_t dilation = 1;
  int64_t groups = 1;
};
/// conv2d of sequences, x [n, in, length] or [in, length], weight [out, in / groups, kernel]: images of height 1.
Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, const Conv1dGeometry& geometry = {});
/// conv_transpose2d of sequences, x [n, in, length] or [in, length], weight [in, out / groups, kernel].
Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        const Conv1dGeometry& geometry = {}, int64_t output_padding = 0);

}  // namespace tendril

TENDRIL_API_END
