#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tendril/tensor/dims.h"
#include "tendril/tensor/export.h"
#include "tendril/tensor/tensor.h"

TENDRIL_API_BEGIN

namespace tendril {

/// Where a pixel's value is taken from.
enum class InterpolateMode : uint8_t {
  nearest,        ///< of the one that its place falls into (PyTorch's "nearest")
  bilinear,       ///< of 2 x 2 around it, by their distances
  bicubic,        ///< of 4 x 4 around it, by the cubic convolution with a = -0.75
  nearest_exact,  ///< of the one whose middle is nearest
  linear,         ///< of two around it: along one dimension
  trilinear,      ///< of 2 x 2 x 2 around it
};
/// "nearest", "nearest_exact", ...
const char* name_of(InterpolateMode mode) noexcept;

/// Exactly one of size and scale_factor: one number for all dimensions behind the channels, or one for each.
struct InterpolateOptions {
  std::optional<Dims> size{};                         ///< of the result
  std::optional<std::vector<double>> scale_factor{};  ///< floor(size * factor)
  InterpolateMode mode = InterpolateMode::nearest;    ///< how values between elements are made
  bool align_corners = false;  ///< not of nearest ones: the corners' pixels, not their outer edges, stay where they are
};

/// Sequences x [batch, channels, length], images [.., height, width] or volumes [.., depth, height, width] of another
/// size, as PyTorch's F.interpolate: the pixel below (nearest), the one whose centre is nearest (nearest_exact), the
/// mean of those around it weighted by nearness (linear of sequences, bilinear of images, trilinear of volumes), or, of
/// images, of sixteen by Keys' cubic convolution with a = -0.75, which may go beyond their values (bicubic; Keys,
/// "Cubic Convolution Interpolation for Digital Image Processing", 1981). One difference: nearest goes by the factor
/// also where an image becomes exactly twice as large, as PyTorch does for sequences only. Any floating dtype, twice
/// differentiable; uint8, computed in float32 and rounded; by the nearest ones any dtype. Throws ShapeError for other
/// dimensions than the mode's, x without pixels, and another number of sizes or factors; DTypeError for other dtypes;
/// Error for sizes or factors that are not positive, or neither or both given.
Tensor interpolate(const Tensor& x, const InterpolateOptions& options);

}  // namespace tendril

TENDRIL_API_END
