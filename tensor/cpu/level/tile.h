#pragma once

#include <cstdint>

#include "tendril/tensor/cpu/level/level.h"

namespace tendril::cpu::TENDRIL_CPU_LEVEL {

/// A register tile of a product: out [rows, two vectors] = `rows` rows of a (steps `row` and `column`) times a panel b
/// [depth, two vectors], or plus. Six rows take 12 sums, 2 vectors of b and one number of a, of 16 registers. (The
/// vectors' type is no template argument: Clang forgets that such a type may lie at any address.)
template <int rows, int64_t lanes, class T>
[[gnu::always_inline]] inline void multiply_tile(const T* a, int64_t row, int64_t column, const T* b, int64_t depth,
                                                 T* out, int64_t out_row, bool add) {
  typedef T Vector __attribute__((vector_size(lanes * sizeof(T)), aligned(alignof(T)), may_alias));
  Vector sum[rows][2] = {};
  for (int64_t p = 0; p < depth; ++p, a += column, b += 2 * lanes) {
    const Vector b0 = *reinterpret_cast<const Vector*>(b), b1 = *reinterpret_cast<const Vector*>(b + lanes);
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
      Vector& to = *reinterpret_cast<Vector*>(out + r * out_row + v * lanes);
      to = add ? to + sum[r][v] : sum[r][v];
    }
  }
}

}  // namespace tendril::cpu::TENDRIL_CPU_LEVEL
