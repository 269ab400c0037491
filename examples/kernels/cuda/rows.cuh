#pragma once

#include "tendril/tensor/cuda/kernels/kernel.cuh"

/// Reductions over a warp or a block, for the lessons about rows. Every thread receives the result.
namespace kernels::on_cuda {

using tendril::cuda::kWarp;
inline constexpr int kThreads = 256;
inline constexpr int kHeld = 32;  // elements per thread when a warp processes a row

struct Sum {
  __device__ float operator()(float a, float b) const { return a + b; }
};
struct Larger {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

/// Reduces in five steps. In each, a lane combines its value with the lane whose index differs in one bit.
template <class Join>
__device__ float of_warp(float value, Join join) {
  for (int bit = kWarp / 2; bit > 0; bit /= 2) value = join(value, __shfl_xor_sync(0xffffffffu, value, bit));
  return value;
}

/// Reduces in eight steps in `shared` [kThreads], halving the number of active threads in each step.
template <class Join>
__device__ float of_block(float value, float* shared, Join join) {
  const auto thread = static_cast<int>(threadIdx.x);
  shared[thread] = value;
  __syncthreads();
  for (int half = kThreads / 2; half > 0; half /= 2) {
    if (thread < half) shared[thread] = join(shared[thread], shared[thread + half]);
    __syncthreads();
  }
  const float all = shared[0];
  __syncthreads();  // before the next reduction writes to `shared`
  return all;
}

inline tendril::cuda::Grid blocks_for(int threads) {
  return {dim3(static_cast<unsigned>((threads + kThreads - 1) / kThreads)), dim3(kThreads)};
}

}  // namespace kernels::on_cuda
