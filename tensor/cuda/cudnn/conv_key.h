#pragma once

#include <array>
#include <cstdint>

#include "tendril/tensor/cuda/kernels/conv.h"
#include "tendril/tensor/cuda/runtime.h"
#include "tendril/tensor/cuda/runtime/current.h"

namespace tendril::cuda {

/// All that a plan for a convolution depends on. In the order of `conv_key`.
using ConvKey = std::array<int64_t, 23>;

inline ConvKey conv_key(const Conv& c, bool tf32) {
  const auto s = [](const View& v, int d) { return v.sizes[d]; };
  const ConvGeometry& g = c.geometry;
  return {current_device(),
          static_cast<int64_t>(c.map),
          static_cast<int64_t>(c.x.dtype),
          c.channels_last,
          tf32,
          deterministic(),
          s(c.x, 0),
          s(c.x, 1),
          s(c.x, 2),
          s(c.x, 3),
          s(c.weight, 0),
          s(c.weight, 1),
          s(c.weight, 2),
          s(c.weight, 3),
          s(c.out, 2),
          s(c.out, 3),
          g.stride.h,
          g.stride.w,
          g.padding.h,
          g.padding.w,
          g.dilation.h,
          g.dilation.w,
          g.groups};
}

}  // namespace tendril::cuda
