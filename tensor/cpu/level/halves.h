#pragma once

#ifdef __F16C__
#include <immintrin.h>
#endif

#include "tendril/tensor/cpu/level/level.h"
#include "tendril/tensor/cpu/paths.h"

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

// Of float16 by the processor's instructions, which the compiler does not find by itself, eight at a time.
template <class H>
constexpr int64_t by_eight([[maybe_unused]] int64_t count) {
#ifdef __F16C__
  if constexpr (std::is_same_v<H, Half>) return count & ~int64_t{7};
#endif
  return 0;
}

template <class H>
void widen(const H* x, int64_t count, float* to) {
  const int64_t whole = by_eight<H>(count);
#ifdef __F16C__
  for (int64_t i = 0; i < whole; i += 8) {
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x + i))));
  }
#endif
  for (int64_t i = whole; i < count; ++i) to[i] = static_cast<float>(x[i]);
}

template <class H>
void narrow(const float* x, int64_t count, H* to) {
  const int64_t whole = by_eight<H>(count);
#ifdef __F16C__
  for (int64_t i = 0; i < whole; i += 8) {
    const __m128i rounded = _mm256_cvtps_ph(_mm256_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), rounded);
  }
#endif
  for (int64_t i = whole; i < count; ++i) to[i] = H(x[i]);
}

/// A pointwise loop of float16 by the same loop of float: pointers, steps and count are those of the former, with a
/// result and Inputs operands, and one more pointer if `Parameter`. Operands that lie together become float piece by
/// piece, repeated ones once. False, and nothing done: others are there.
template <int Inputs, bool Parameter, class Out>
bool by_float(Loop loop, char* const* pointers, const int64_t* steps, int64_t count) {
  if (steps[0] != sizeof(Out)) return false;
  for (int k = 1; k <= Inputs; ++k) {
    if (steps[k] != sizeof(Half) && steps[k] != 0) return false;
  }
  if (count >= kCounted) took(Path::half_pieces);
  constexpr bool rounds = std::is_same_v<Out, Half>;
  float result[kHalfPiece], inputs[Inputs][kHalfPiece];
  char* of_float[Inputs + 2];
  int64_t float_steps[Inputs + 1] = {rounds ? int64_t{sizeof(float)} : steps[0]};
  of_float[0] = reinterpret_cast<char*>(result);
  for (int k = 1; k <= Inputs; ++k) {
    of_float[k] = reinterpret_cast<char*>(inputs[k - 1]);
    float_steps[k] = steps[k] == 0 ? 0 : int64_t{sizeof(float)};
    if (steps[k] == 0) widen(reinterpret_cast<const Half*>(pointers[k]), 1, inputs[k - 1]);
  }
  if constexpr (Parameter) of_float[Inputs + 1] = pointers[Inputs + 1];
  for_pieces(count, [&](int64_t at, int64_t length) {
    for (int k = 1; k <= Inputs; ++k) {
      if (steps[k] != 0) widen(reinterpret_cast<const Half*>(pointers[k]) + at, length, inputs[k - 1]);
    }
    Out* const out = reinterpret_cast<Out*>(pointers[0]) + at;
    if constexpr (!rounds) of_float[0] = reinterpret_cast<char*>(out);
    loop(of_float, float_steps, length);
    if constexpr (rounds) narrow(result, length, out);
  });
  return true;
}

}  // namespace
}  // namespace tendril::cpu::TENDRIL_CPU_LEVEL
