#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "tendril/tensor/cuda/strided.h"
#include "tendril/tensor/dims.h"

/// Where things start that a kernel counts with one number: the rows of a tensor, the elements of an index. Pure
/// functions of sizes and strides, without CUDA. 64 bits throughout; division in 32 bits where the count permits.
namespace tendril::cuda {

/// N operands seen along some dimensions. Dimension 0 is the fastest; strides are in elements.
template <int N>
struct Places {
  using Strides = std::array<int64_t, N>;

  int ndim = 0;
  bool narrow = true;  ///< all numbers are below 2^31: `divisors` serve
  int64_t count = 1;   ///< the product of the sizes
  int64_t sizes[Dims::kMaxDims] = {};
  int64_t strides[Dims::kMaxDims][N] = {};
  Divisor divisors[Dims::kMaxDims];

  /// Adds a dimension in its place, by operand 0's stride: before those of larger stride, behind those of equal
  /// stride (so of a tensor's dimensions the last goes first). Sizes of 1 count for nothing.
  void insert(int64_t size, const Strides& by) {
    if (size == 1) return;
    int at = ndim++;
    for (; at > 0 && strides[at - 1][0] > by[0]; --at) move(at - 1, at);
    set(at, size, by);
  }
  /// Merges neighbours where every operand permits it, and completes the rest. To be called once, after the last
  /// `insert`.
  void finish() {
    int last = -1;
    for (int d = 0; d < ndim; ++d) {
      bool merges = last >= 0;
      for (int k = 0; k < N && merges; ++k) merges = strides[d][k] == strides[last][k] * sizes[last];
      if (merges) {
        sizes[last] *= sizes[d];
      } else {
        move(d, ++last);
      }
    }
    ndim = last + 1;
    prepare();
  }
  /// Takes dimension 0 out: its size and strides; size 1 where there is none.
  int64_t take_first(Strides& by) {
    by = {};
    if (ndim == 0) return 1;
    const int64_t size = sizes[0];
    for (int k = 0; k < N; ++k) by[static_cast<std::size_t>(k)] = strides[0][k];
    for (int d = 1; d < ndim; ++d) move(d, d - 1);
    --ndim;
    prepare();
    return size;
  }
  /// Every stride of operand k is a multiple of `width`.
  bool multiples(int k, int64_t width) const {
    for (int d = 0; d < ndim; ++d) {
      if (strides[d][k] % width != 0) return false;
    }
    return true;
  }

  /// at[k] = offset of number `index`, 0 <= index < count, in operand k.
  constexpr void of(int64_t index, int64_t (&at)[N]) const {
    for (int k = 0; k < N; ++k) at[k] = 0;
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
    for (int d = 0; d < Dims::kMaxDims; ++d) {  // a bound that is known keeps the arrays in constant memory
      if (d + 1 >= ndim) {
        if (d < ndim) {
          for (int k = 0; k < N; ++k) at[k] += index * strides[d][k];
        }
        return;
      }
      const int64_t next =
          narrow ? static_cast<int64_t>(divisors[d].quotient(static_cast<uint32_t>(index))) : index / sizes[d];
      const int64_t rest = index - next * sizes[d];
      for (int k = 0; k < N; ++k) at[k] += rest * strides[d][k];
      index = next;
    }
  }

 private:
  void set(int at, int64_t size, const Strides& by) {
    sizes[at] = size;
    for (int k = 0; k < N; ++k) strides[at][k] = by[static_cast<std::size_t>(k)];
  }
  void move(int from, int to) {
    sizes[to] = sizes[from];
    for (int k = 0; k < N; ++k) strides[to][k] = strides[from][k];
  }
  void prepare() {
    count = 1;
    for (int d = 0; d < ndim; ++d) count *= sizes[d];
    narrow = count <= INT32_MAX;
    for (int d = 0; d < ndim && narrow && count > 0; ++d) divisors[d] = Divisor(static_cast<uint32_t>(sizes[d]));
  }
};

/// The smallest power of two that is at least `x`, within [1, most]; `most` is a power of two.
constexpr int power_of_two_from(int64_t x, int most) {
  int result = 1;
  while (result < most && result < x) result *= 2;
  return result;
}

}  // namespace tendril::cuda
