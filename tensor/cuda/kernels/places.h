#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "tendril/tensor/cuda/kernels/strided.h"
#include "tendril/tensor/detail/plan.h"
#include "tendril/tensor/dims.h"

/// Where things start that a kernel counts with one number: the rows of a tensor, the elements of an index. Pure
/// functions of sizes and strides, without CUDA. 64 bits throughout; division in 32 bits where the count permits.
namespace tendril::cuda {

/// N operands seen along some dimensions, as a plan has them (detail/plan.h); strides are in elements.
template <int N>
struct Places {
  using Strides = std::array<int64_t, N>;

  int ndim = 0;
  bool narrow = true;  ///< all numbers are below 2^31: `divisors` serve
  int64_t count = 1;   ///< the product of the sizes
  int64_t sizes[Dims::kMaxDims] = {};
  int64_t strides[Dims::kMaxDims][N] = {};
  Divisor divisors[Dims::kMaxDims];

  int64_t& size(int d) { return sizes[d]; }
  int64_t& stride(int k, int d) { return strides[d][k]; }

  /// Adds a dimension in its place.
  void insert(int64_t size, const Strides& by) { plan::insert(*this, size, by); }
  /// Merges neighbours, and completes the rest. To be called once, after the last `insert`.
  void finish() {
    plan::merge<N>(*this);
    prepare();
  }
  /// Takes dimension 0 out: its size and strides; size 1 where there is none.
  int64_t take_first(Strides& by) {
    const int64_t size = plan::take_first(*this, by);
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
