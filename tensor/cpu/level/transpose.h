#pragma once

#include <cstdint>

#include "tendril/tensor/cpu/level/level.h"

namespace tendril::cpu::TENDRIL_CPU_LEVEL {

/// Four rows of four become four columns; steps in bytes. `Bits` has an element's size.
template <class Bits>
inline void transpose_4x4(char* out, int64_t out_step, const char* x, int64_t x_step) {
  typedef Bits Four __attribute__((vector_size(4 * sizeof(Bits)), aligned(alignof(Bits)), may_alias));
  const Four a = *reinterpret_cast<const Four*>(x), b = *reinterpret_cast<const Four*>(x + x_step);
  const Four c = *reinterpret_cast<const Four*>(x + 2 * x_step), d = *reinterpret_cast<const Four*>(x + 3 * x_step);
  const Four ab = __builtin_shufflevector(a, b, 0, 4, 1, 5), ab2 = __builtin_shufflevector(a, b, 2, 6, 3, 7);
  const Four cd = __builtin_shufflevector(c, d, 0, 4, 1, 5), cd2 = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  *reinterpret_cast<Four*>(out) = __builtin_shufflevector(ab, cd, 0, 1, 4, 5);
  *reinterpret_cast<Four*>(out + out_step) = __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
  *reinterpret_cast<Four*>(out + 2 * out_step) = __builtin_shufflevector(ab2, cd2, 0, 1, 4, 5);
  *reinterpret_cast<Four*>(out + 3 * out_step) = __builtin_shufflevector(ab2, cd2, 2, 3, 6, 7);
}

}  // namespace tendril::cpu::TENDRIL_CPU_LEVEL
