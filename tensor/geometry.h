#pragma once

#include <cstdint>
#include <iosfwd>

#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

/// The shape rules of operations that slide a window over images [..., height, width].
namespace tendril {

/// A number for each of the two spatial dimensions; one number stands for both.
struct Size2 {
  int64_t h, w;

  constexpr Size2(int64_t both) noexcept : h(both), w(both) {}
  constexpr Size2(int64_t height, int64_t width) noexcept : h(height), w(width) {}
  friend constexpr bool operator==(const Size2&, const Size2&) noexcept = default;
};

/// Prints `[3, 3]`.
std::ostream& operator<<(std::ostream& out, const Size2& size);

/// How a convolution's window moves. Output (i, j) sees input (i stride + k dilation - padding, ...) for k in the
/// kernel; outside of the image there are zeros. Channels are cut into `groups` that do not see each other.
struct ConvGeometry {
  Size2 stride = 1;
  Size2 padding = 0;  ///< on either side
  Size2 dilation = 1;
  int64_t groups = 1;
};

/// How a pooling window moves; outside of the image there is nothing (max) or zeros (mean).
struct PoolGeometry {
  Size2 kernel = 1;
  Size2 stride = 1;
  Size2 padding = 0;
  Size2 dilation = 1;
};

/// How many places a window has along one dimension. With `ceil_mode` one that hangs over the end counts too, if it
/// starts inside the image or its left padding. Below 1 if the window does not fit.
int64_t window_count(int64_t input, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation,
                     bool ceil_mode = false) noexcept;

}  // namespace tendril

TENDRIL_API_END
