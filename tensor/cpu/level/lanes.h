#pragma once

#include <cstdint>

#include "tendril/tensor/cpu/level/level.h"

namespace tendril::cpu::TENDRIL_CPU_LEVEL {

#ifdef __AVX2__
constexpr int kRegisterBytes = 32;
#else
constexpr int kRegisterBytes = 16;
#endif

/// A vector register's worth of elements, at any address.
template <class T>
struct Lanes {
  typedef T Vector __attribute__((vector_size(kRegisterBytes), aligned(alignof(T)), may_alias));
  static constexpr int64_t count = kRegisterBytes / sizeof(T);
};

}  // namespace tendril::cpu::TENDRIL_CPU_LEVEL
