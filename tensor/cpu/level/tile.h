#pragma once

#include <cstdint>

#include "tendril/tensor/cpu/level/level.h"

namespace tendril::cpu::TENDRIL_CPU_LEVEL {

/// A register tile of a product: out [rows, two vectors] = `rows` rows of a (steps `row` and `column`) times a panel b
/// [depth, two vectors], or plus. Six rows take 12 sums, 2 vectors of b and one number of a, of 16 registers.
template <int rows, class Vector, class T>
[[gnu::always_inline]] inline void multiply_tile(const T* a, int64_t row, int64_t column, const T* b, int64_t depth,
                                                 T* out, int64_t out_row, bool add) {
  constexpr int64_t L = sizeof(Vector) / sizeof(T);
  Vector sum[rows][2] = {};
  for (int64_t p = 0; p < depth; ++p, a += column, b += 2 * L) {
    const Vector b0 = *reinterpret_cast<const Vector*>(b), b1 = *reinterpret_cast<const Vector*>(b + L);
#pragma GCC unroll 6
    for (int64_t r = 0; r < rows; ++r) {
      const T x = a[r * row];
      sum[r][0] += x * b0, sum[r][1] += x * b1;
    }
  }
#pragma GCC unroll 6
  for (int64_t r = 0; r < rows; ++r) {
#pragma GCC unroll 2
    for (int64_t v = 0; v < 2; ++v) {
      Vector& to = *reinterpret_cast<Vector*>(out + r * out_row + v * L);
      to = add ? to + sum[r][v] : sum[r][v];
    }
  }
}

}  // namespace tendril::cpu::TENDRIL_CPU_LEVEL
