#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "tendril/tensor/geometry.h"
#include "tendril/tensor/tensor.h"

namespace tendril {

/// Where a pixel's value is taken from.
enum class InterpolateMode : uint8_t { nearest, bilinear, bicubic, nearest_exact };

/// Exactly one of size and scale_factor.
struct InterpolateOptions {
  std::optional<Size2> size{};                              ///< of the result
  std::optional<std::pair<double, double>> scale_factor{};  ///< height and width: floor(size * factor)
  InterpolateMode mode = InterpolateMode::nearest;
  bool align_corners = false;  ///< bilinear, bicubic: the corners' pixels, not their outer edges, stay where they are
};

/// Images x [batch, channels, height, width] of another size, as PyTorch's F.interpolate: the pixel below (nearest),
/// the one whose centre is nearest (nearest_exact), the mean of four weighted by nearness (bilinear), or of sixteen by
/// Keys' cubic convolution with a = -0.75, which may go beyond their values (bicubic; Keys, "Cubic Convolution
/// Interpolation for Digital Image Processing", 1981). Any floating dtype, twice differentiable.
/// Throws ShapeError for other dimensions and images without pixels, DTypeError for other dtypes, Error for sizes or
/// factors that are not positive, or neither or both given.
Tensor interpolate(const Tensor& x, const InterpolateOptions& options);

}  // namespace tendril
