#pragma once

#include "tendril/tensor/cpu/level/level.h"

/// Pieces of rows of the half types, which become float on the way into a loop's own buffers and are rounded on the way
/// out.
namespace tendril::cpu::TENDRIL_CPU_LEVEL {
namespace {

constexpr int64_t kHalfPiece = 512;

/// f(at, length) for one piece after the other.
template <class F>
void for_pieces(int64_t count, F f) {
  for (int64_t at = 0; at < count; at += kHalfPiece) f(at, count - at < kHalfPiece ? count - at : kHalfPiece);
}

template <class H>
void widen(const H* x, int64_t count, float* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(x[i]);
}

template <class H>
void narrow(const float* x, int64_t count, H* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = H(x[i]);
}

}  // namespace
}  // namespace tendril::cpu::TENDRIL_CPU_LEVEL
