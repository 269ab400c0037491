#ifdef __SSE2__
#include <immintrin.h>
#endif

#include <algorithm>
#include <cstring>

#include "tendril/tensor/cpu/level/transpose.h"

namespace tendril::cpu::TENDRIL_CPU_LEVEL {
namespace {

/// By blocks of 4x4, of which the last ones overlap those before.
template <class Bits>
void transpose_tile(char* out, int64_t out_step, const char* x, int64_t x_step, int64_t width, int64_t height) {
  constexpr int64_t kUnit = sizeof(Bits), kBlock = 4;
  if (width < kBlock || height < kBlock) {
    for (int64_t i = 0; i < width; ++i) {
      for (int64_t j = 0; j < height; ++j) {
        *reinterpret_cast<Bits*>(out + j * out_step + i * kUnit) =
            *reinterpret_cast<const Bits*>(x + i * x_step + j * kUnit);
      }
    }
    return;
  }
  for (int64_t next = 0; next < width; next += kBlock) {
    const int64_t i = std::min(next, width - kBlock);
    for (int64_t after = 0; after < height; after += kBlock) {
      const int64_t j = std::min(after, height - kBlock);
      transpose_4x4<Bits>(out + j * out_step + i * kUnit, out_step, x + i * x_step + j * kUnit, x_step);
    }
  }
}

constexpr int64_t kLine = 64;

/// Writes a cache line past the caches; what is read there next waits for `end_stream`.
inline void stream_line(char* to, const char* line) {
#ifdef __SSE2__
  for (int64_t i = 0; i < kLine; i += 16) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + i), *reinterpret_cast<const __m128i*>(line + i));
  }
#else
  std::memcpy(to, line, kLine);
#endif
}
inline void end_stream() {
#ifdef __SSE2__
  _mm_sfence();
#endif
}

/// By blocks of a cache line of `out` by kTileAcross, turned in a buffer: rows of `out` a power of two apart share a
/// few places of the cache, and lines that were written to in pieces would push each other out.
template <class Bits, bool streamed>
void transpose_far_tile(char* out, int64_t out_step, const char* x, int64_t x_step, int64_t width, int64_t height) {
  constexpr int64_t kUnit = sizeof(Bits), kWidth = kLine / kUnit;
  if (streamed && (reinterpret_cast<uintptr_t>(out) % kLine != 0 || out_step % kLine != 0)) {
    return transpose_far_tile<Bits, false>(out, out_step, x, x_step, width, height);
  }
  int64_t i = 0;
  for (; height == kTileAcross && i + kWidth <= width; i += kWidth) {
    alignas(kLine) char block[kLine * kTileAcross];
    const char* const from = x + i * x_step;
    for (int64_t k = 0; k < kWidth; k += 4) {
      for (int64_t j = 0; j < kTileAcross; j += 4) {
        transpose_4x4<Bits>(block + j * kLine + k * kUnit, kLine, from + k * x_step + j * kUnit, x_step);
      }
    }
    for (int64_t j = 0; j < kTileAcross; ++j) {
      char* const to = out + j * out_step + i * kUnit;
      streamed ? stream_line(to, block + j * kLine) : void(std::memcpy(to, block + j * kLine, kLine));
    }
  }
  if (streamed) end_stream();
  if (i < width) transpose_tile<Bits>(out + i * kUnit, out_step, x + i * x_step, x_step, width - i, height);
}

}  // namespace

extern const TransposeLoops transpose_loops;
const TransposeLoops transpose_loops = {
    {transpose_tile<uint8_t>, transpose_tile<uint16_t>, transpose_tile<uint32_t>, transpose_tile<uint64_t>},
    {transpose_far_tile<uint8_t, false>, transpose_far_tile<uint16_t, false>, transpose_far_tile<uint32_t, false>,
     transpose_far_tile<uint64_t, false>},
    {transpose_far_tile<uint8_t, true>, transpose_far_tile<uint16_t, true>, transpose_far_tile<uint32_t, true>,
     transpose_far_tile<uint64_t, true>}};

}  // namespace tendril::cpu::TENDRIL_CPU_LEVEL
