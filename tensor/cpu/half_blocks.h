#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "tendril/tensor/cpu/level/level.h"
#include "tendril/tensor/dtype.h"

/// Loops over elements of the half types that compute in float32, a block at a time: float16 is converted by the
/// processor's instructions (loops().half_casts), which the compiler does not find for one element, nor outside of
/// level/.
namespace tendril::cpu {

template <class T>
inline constexpr bool is_half_type = !std::is_same_v<T, Compute<T>>;

inline constexpr int64_t kHalfBlock = 256;

/// `count` elements, up to a block, `step` bytes apart.
template <class T>
void widen_block(const char* x, int64_t step, int64_t count, float* to) {
  if constexpr (std::is_same_v<T, BFloat16>) {  // which becomes vector code by itself
    if (step == sizeof(T)) {
      for (int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(reinterpret_cast<const T*>(x)[i]);
    } else {
      for (int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(*reinterpret_cast<const T*>(x + i * step));
    }
  } else {
    T together[kHalfBlock];
    if (step != sizeof(T)) {
      for (int64_t i = 0; i < count; ++i) together[i] = *reinterpret_cast<const T*>(x + i * step);
      x = reinterpret_cast<const char*>(together);
    }
    char* const operands[] = {reinterpret_cast<char*>(to), const_cast<char*>(x)};
    const int64_t steps[] = {sizeof(float), sizeof(T)};
    loops().half_casts.widen(operands, steps, count);
  }
}

/// And back, each rounded once.
template <class T>
void narrow_block(const float* x, int64_t count, char* to, int64_t step) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    if (step == sizeof(T)) {
      for (int64_t i = 0; i < count; ++i) reinterpret_cast<T*>(to)[i] = T(x[i]);
    } else {
      for (int64_t i = 0; i < count; ++i) *reinterpret_cast<T*>(to + i * step) = T(x[i]);
    }
  } else {
    T together[kHalfBlock];
    T* const out = step == sizeof(T) ? reinterpret_cast<T*>(to) : together;
    char* const operands[] = {reinterpret_cast<char*>(out), reinterpret_cast<char*>(const_cast<float*>(x))};
    const int64_t steps[] = {sizeof(T), sizeof(float)};
    loops().half_casts.narrow(operands, steps, count);
    if (out != together) return;
    for (int64_t i = 0; i < count; ++i) *reinterpret_cast<T*>(to + i * step) = together[i];
  }
}

/// body(blocks, length): blocks[k][i] is element i of input k in float32, and the result is to be in blocks[0].
/// Pointers and steps are those of a Loop, the result's first, all of T.
template <class T, std::size_t kInputs, class Body>
void in_blocks_of_float(char* const* pointers, const int64_t* steps, int64_t count, const Body& body) {
  float blocks[kInputs][kHalfBlock];
  for (int64_t first = 0; first < count; first += kHalfBlock) {
    const int64_t length = std::min(kHalfBlock, count - first);
    for (std::size_t k = 0; k < kInputs; ++k) {
      widen_block<T>(pointers[k + 1] + first * steps[k + 1], steps[k + 1], length, blocks[k]);
    }
    body(blocks, length);
    narrow_block<T>(blocks[0], length, pointers[0] + first * steps[0], steps[0]);
  }
}

}  // namespace tendril::cpu
