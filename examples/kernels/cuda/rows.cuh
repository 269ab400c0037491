#pragma once

#include "tendril/tensor/cuda/kernels/kernel.cuh"

/// What lessons about rows share: results of the threads of a warp, or of a block, made one that all of them have.
namespace kernels::on_cuda {

using tendril::cuda::kWarp;
inline constexpr int kThreads = 256;
inline constexpr int kHeld = 32;  // numbers of a row that a thread keeps where a warp has the row

struct Sum {
  __device__ float operator()(float a, float b) const { return a + b; }
};
struct Larger {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

/// In five steps, each lane with the one whose number differs in one bit.
template <class Join>
__device__ float of_warp(float value, Join join) {
  for (int bit = kWarp / 2; bit > 0; bit /= 2) value = join(value, __shfl_xor_sync(0xffffffffu, value, bit));
  return value;
}

/// In eight steps, in `shared` [kThreads], each time half of the threads with the other half.
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
  __syncthreads();  // before anybody writes there again
  return all;
}

inline tendril::cuda::Grid blocks_for(int threads) {
  return {dim3(static_cast<unsigned>((threads + kThreads - 1) / kThreads)), dim3(kThreads)};
}

}  // namespace kernels::on_cuda
