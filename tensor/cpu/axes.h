#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "tendril/tensor/detail/plan.h"
#include "tendril/tensor/dims.h"

namespace tendril::cpu {

/// Dimensions of a reduction: the plan of x and the result, whose strides are 0 in the reduced ones; in bytes.
struct Axes : Plan<2> {
  /// Runs `body(x, out)` at `places` indices, in order, from number `first` on.
  template <class Body>
  void for_range(const char* x, char* out, int64_t first, int64_t places, Body&& body) const {
    std::array<int64_t, Dims::kMaxDims> index{};
    const auto count = static_cast<std::size_t>(ndim);
    for (std::size_t d = 0; d < count && first > 0; ++d) {
      index[d] = first % sizes[d];
      first /= sizes[d];
      x += index[d] * strides[0][d];
      out += index[d] * strides[1][d];
    }
    for (; places > 0; --places) {
      body(x, out);
      for (std::size_t d = 0; d < count; ++d) {
        x += strides[0][d];
        out += strides[1][d];
        if (++index[d] < sizes[d]) break;
        x -= strides[0][d] * sizes[d];
        out -= strides[1][d] * sizes[d];
        index[d] = 0;
      }
    }
  }
  template <class Body>
  void for_each(const char* x, char* out, Body&& body) const {
    for_range(x, out, 0, numel(), body);
  }
};

}  // namespace tendril::cpu
