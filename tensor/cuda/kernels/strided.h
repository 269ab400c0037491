#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "tendril/tensor/detail/plan.h"
#include "tendril/tensor/dims.h"
#include "tendril/tensor/dtype.h"
#include "tendril/tensor/view.h"

/// How pointwise kernels see operands of one shape. Pure functions of sizes and strides, without CUDA: what a kernel
/// will index is tested on any machine.
namespace tendril::cuda {

/// Operands of one shape, operand 0 the output; strides are in elements.
template <int N>
using Strided = Plan<N>;

/// Makes the above of views; views[0]->numel > 0.
template <int N>
Strided<N> collapse(const std::array<const View*, N>& views) {
  std::array<int64_t, N> elements;
  elements.fill(1);
  bool flat = true;
  for (const View* view : views) flat = flat && view->contiguous;
  if (!flat) return plan_of<N>(views, elements);
  Strided<N> result;
  result.ndim = 1;
  result.sizes[0] = views[0]->numel;
  for (auto& strides : result.strides) strides[0] = 1;
  return result;
}

/// Kernels compute offsets in 32 bits, with a bit to spare: no offset and no number of elements above this.
inline constexpr int64_t kMaxOffset = INT32_MAX;

/// Calls `body(piece, offsets)`, offsets[k] being where in operand k the piece starts, for pieces that together are
/// `whole` and have at most `limit` elements and no offset above `limit`. So kernels need no 64-bit arithmetic.
template <int N, class Body>
void for_each_piece(const Strided<N>& whole, Body&& body, int64_t limit = kMaxOffset,
                    std::array<int64_t, N> offsets = {}) {
  int64_t numel = 1;
  std::array<int64_t, N> extents{};
  int64_t longest = -1;
  std::size_t cut = 0;  // where halving makes the largest difference
  for (std::size_t d = 0; d < static_cast<std::size_t>(whole.ndim); ++d) {
    numel *= whole.sizes[d];
    for (std::size_t k = 0; k < N; ++k) {
      const int64_t extent = (whole.sizes[d] - 1) * whole.strides[k][d];
      extents[k] += extent;
      if (whole.sizes[d] > 1 && extent > longest) {
        longest = extent;
        cut = d;
      }
    }
  }
  bool fits = numel <= limit;
  for (const int64_t extent : extents) fits = fits && extent <= limit;
  if (fits) [[likely]]
    return body(whole, offsets);

  // A half that is a multiple of a vector stays aligned if the whole is.
  constexpr int64_t kMultiple = 64;
  int64_t half = whole.sizes[cut] / 2;
  if (half > kMultiple) half -= half % kMultiple;
  Strided<N> part = whole;
  part.sizes[cut] = half;
  for_each_piece<N>(part, body, limit, offsets);
  part.sizes[cut] = whole.sizes[cut] - half;
  for (std::size_t k = 0; k < N; ++k) offsets[k] += half * whole.strides[k][cut];
  for_each_piece<N>(part, body, limit, offsets);
}

/// Whether elements can be handled `width` at a time along dimension 0: the output steps by 1 and inputs by 1 or not at
/// all, vectors start at multiples of their size, and a row is a whole number of them (a single row may have a rest).
/// addresses[k] is where operand k starts, unit[k] the size of its elements in bytes.
template <int N>
bool in_vectors(const Strided<N>& s, int width, const std::array<uintptr_t, N>& addresses,
                const std::array<std::size_t, N>& unit) {
  if (s.strides[0][0] != 1 || (s.ndim > 1 && s.sizes[0] % width != 0)) return false;
  for (std::size_t k = 0; k < N; ++k) {
    if (s.strides[k][0] == 0) continue;
    const std::size_t bytes = std::size_t{static_cast<unsigned>(width)} * unit[k];
    if (s.strides[k][0] != 1 || addresses[k] % (bytes < 16 ? bytes : 16) != 0) return false;
    for (std::size_t d = 1; d < static_cast<std::size_t>(s.ndim); ++d) {
      if (s.strides[k][d] % width != 0) return false;
    }
  }
  return true;
}

/// Matrices that a copy transposes: `columns` elements next to each other in the output, `rows` in the input.
struct Transposition {
  int64_t rows, columns;
  int64_t out_row;      ///< from row to row, in the output
  int64_t x_column;     ///< from column to column, in the input
  Strided<2> matrices;  ///< where they start
};

/// How `s` is to be copied by transposing tiles, if that helps: elements next to each other on one side are apart on
/// the other, and lie in rows that are worth a tile.
inline std::optional<Transposition> transposition(const Strided<2>& s) {
  constexpr int64_t kWorthATile = 16;
  const auto& [out, x] = s.strides;
  if (out[0] != 1 || x[0] <= 1 || s.sizes[0] < kWorthATile) return std::nullopt;
  for (std::size_t d = 1; d < static_cast<std::size_t>(s.ndim); ++d) {
    if (x[d] != 1) continue;
    if (s.sizes[d] < kWorthATile) return std::nullopt;
    Transposition t{s.sizes[d], s.sizes[0], out[d], x[0], {}};
    for (std::size_t i = 1; i < static_cast<std::size_t>(s.ndim); ++i) {
      if (i == d) continue;
      const auto at = static_cast<std::size_t>(t.matrices.ndim++);
      t.matrices.sizes[at] = s.sizes[i];
      for (std::size_t k = 0; k < 2; ++k) t.matrices.strides[k][at] = s.strides[k][i];
    }
    if (t.matrices.ndim == 0) {
      t.matrices.ndim = 1;
      t.matrices.sizes[0] = 1;
    }
    return t;
  }
  return std::nullopt;
}

/// Division by a number that is known before the kernel starts: two instructions instead of about twenty. (Granlund and
/// Montgomery: "Division by invariant integers using multiplication", PLDI'94, section 4.)
struct Divisor {
  uint32_t divisor = 1;
  uint32_t factor = 1;
  uint32_t shift = 0;

  Divisor() = default;
  /// 1 <= by <= 2^31
  constexpr explicit Divisor(uint32_t by) : divisor(by) {
    while ((uint64_t{1} << shift) < by) ++shift;
    factor = static_cast<uint32_t>(((uint64_t{1} << 32) * ((uint64_t{1} << shift) - by)) / by + 1);
  }
  /// n / divisor, for n < 2^31
  constexpr uint32_t quotient(uint32_t n) const {
    const auto high = static_cast<uint32_t>(uint64_t{n} * factor >> 32);
    return (high + n) >> shift;
  }
};

/// What a kernel gets of a `Strided`: offsets of element i, counted with dimension 0 fastest, of a piece within
/// kMaxOffset. A single dimension needs no division.
template <int N>
struct Offsets {
  int ndim = 1;
  Divisor sizes[Dims::kMaxDims];
  uint32_t strides[Dims::kMaxDims][N] = {};

  Offsets() = default;
  /// Counts in vectors: dimension 0 is `width` times shorter, and steps by `width` elements.
  explicit Offsets(const Strided<N>& s, int width = 1) : ndim(s.ndim) {
    for (int d = 0; d < ndim; ++d) {
      const auto i = static_cast<std::size_t>(d);
      const int64_t each = d == 0 ? width : 1;
      // The last quotient is never asked for, and a single row may have a rest.
      sizes[d] = d + 1 < ndim ? Divisor(static_cast<uint32_t>(s.sizes[i] / each)) : Divisor();
      for (int k = 0; k < N; ++k) {
        strides[d][k] = static_cast<uint32_t>(s.strides[static_cast<std::size_t>(k)][i] * each);
      }
    }
  }

  /// at[k] = offset of element i in operand k
  constexpr void of(uint32_t i, uint32_t (&at)[N]) const {
    for (int k = 0; k < N; ++k) at[k] = 0;
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
    for (int d = 0; d < Dims::kMaxDims; ++d) {  // a bound that is known keeps `strides` in constant memory
      if (d + 1 >= ndim) {
        for (int k = 0; k < N; ++k) at[k] += i * strides[d][k];
        return;
      }
      const uint32_t next = sizes[d].quotient(i);
      const uint32_t index = i - next * sizes[d].divisor;
      for (int k = 0; k < N; ++k) at[k] += index * strides[d][k];
      i = next;
    }
  }
};

}  // namespace tendril::cuda
