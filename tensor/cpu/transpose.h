#pragma once

#include <algorithm>
#include <cstdint>

/// Small pieces of memory, turned: rows become columns.
namespace tendril::cpu {

/// A tile's elements along what is written together, and along what is read together. Of those tried (16 to 256 by 8 to
/// 64, through a buffer or not) the fastest for large matrices, also where rows lie a power of two apart.
inline constexpr int64_t kTileAlong = 64, kTileAcross = 16;

/// Four rows of four become four columns. Steps in bytes; `Bits` has an element's size.
template <class Bits>
void transpose_4x4(char* out, int64_t out_step, const char* x, int64_t x_step) {
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

/// out[j][i] = x[i][j] for i < width, j < height; neighbours in `out` are those of i, in `x` those of j.
template <class Bits>
void transpose_tile(char* out, int64_t out_step, const char* x, int64_t x_step, int64_t width, int64_t height) {
  constexpr int64_t kUnit = sizeof(Bits);
  for (int64_t i = 0; i < width; i += 4) {
    for (int64_t j = 0; j < height; j += 4) {
      char* const to = out + j * out_step + i * kUnit;
      const char* const from = x + i * x_step + j * kUnit;
      if (i + 4 <= width && j + 4 <= height) {
        transpose_4x4<Bits>(to, out_step, from, x_step);
        continue;
      }
      for (int64_t k = 0; k < std::min<int64_t>(4, width - i); ++k) {
        for (int64_t l = 0; l < std::min<int64_t>(4, height - j); ++l) {
          *reinterpret_cast<Bits*>(to + l * out_step + k * kUnit) =
              *reinterpret_cast<const Bits*>(from + k * x_step + l * kUnit);
        }
      }
    }
  }
}

using TransposeTile = void (*)(char* out, int64_t out_step, const char* x, int64_t x_step, int64_t width,
                               int64_t height);
/// `unit`: bytes of an element.
inline TransposeTile transpose_tile_of(int64_t unit) noexcept {
  switch (unit) {
    case 1:
      return transpose_tile<uint8_t>;
    case 2:
      return transpose_tile<uint16_t>;
    case 4:
      return transpose_tile<uint32_t>;
    default:
      return transpose_tile<uint64_t>;
  }
}

}  // namespace tendril::cpu
