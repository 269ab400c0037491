#pragma once

#include "tendril/tensor/cuda/kernels/element.cuh"
#include "tendril/tensor/cuda/kernels/pack.cuh"

/// What kernels that combine values across threads share.
namespace tendril::cuda {

inline constexpr unsigned kAllLanes = 0xffffffffU;

/// bool is kept in bytes of 0 and 1: kernels that only compare and move see it as uint8.
template <class T>
using Stored = std::conditional_t<std::is_same_v<T, bool>, uint8_t, T>;

/// Combines the values of `lanes` neighbouring threads, a power of two, at most a block of 32 * kWarps. The first of
/// them gets the result. All threads of the block must call it; `shared` has kWarps elements.
template <class A, class Op>
__device__ A combine_lanes(A value, int lanes, A* shared, const Op& op) {
  for (int distance = (lanes < kWarp ? lanes : kWarp) / 2; distance > 0; distance /= 2) {
    value = op(value, __shfl_down_sync(kAllLanes, value, static_cast<unsigned>(distance)));
  }
  if (lanes <= kWarp) return value;
  const int warp = static_cast<int>(threadIdx.x) / kWarp, warps = lanes / kWarp;
  __syncthreads();  // `shared` may still be read by an earlier call
  if (threadIdx.x % kWarp == 0) shared[warp] = value;
  __syncthreads();
  if (threadIdx.x % static_cast<unsigned>(lanes) == 0) {
    for (int other = 1; other < warps; ++other) value = op(value, shared[warp + other]);
  }
  return value;
}

/// f(number of vectors, place of the first) for this thread's of `count` vectors: several at a time, `step` apart, as
/// long as there are so many, so that their loads are under way together.
template <class F>
__device__ void in_groups(int64_t first, int64_t count, int64_t step, F f) {
  constexpr int kAtOnce = 4;
  int64_t i = first;
  for (; i + (kAtOnce - 1) * step < count; i += kAtOnce * step) f(std::integral_constant<int, kAtOnce>{}, i);
  for (; i < count; i += step) f(std::integral_constant<int, 1>{}, i);
}

}  // namespace tendril::cuda
