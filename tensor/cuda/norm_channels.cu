#include "tendril/tensor/cuda/kernel.cuh"
#include "tendril/tensor/cuda/norm.h"

namespace tendril::cuda {
namespace {

/// f(channel) for all of them.
template <class F>
__device__ inline void for_each(int64_t channels, F f) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t c = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; c < channels; c += step) f(c);
}

__global__ void __launch_bounds__(kGridThreads) fill(float* a, float* b, float* c, float* ones, int64_t channels) {
  for_each(channels, [&](int64_t i) {
    if (a) a[i] = 0;
    if (b) b[i] = 0;
    if (c) c[i] = 0;
    if (ones) ones[i] = 1;
  });
}

__global__ void __launch_bounds__(kGridThreads) scale(float* values, double factor, int64_t channels) {
  for_each(channels, [&](int64_t i) { values[i] = static_cast<float>(values[i] * factor); });
}

__global__ void __launch_bounds__(kGridThreads)
    invert(float* inverse, const float* var, double eps, float* ones, int64_t channels) {
  for_each(channels, [&](int64_t i) {
    inverse[i] = static_cast<float>(1 / sqrt(static_cast<double>(var[i]) + eps));
    if (ones) ones[i] = 1;
  });
}

}  // namespace

void fill_channels(const char* op, float* zeros, float* more_zeros, float* still_more_zeros, float* ones,
                   int64_t channels) {
  launch(op, fill, grid_for(channels), zeros, more_zeros, still_more_zeros, ones, channels);
}
void scale_channels(const char* op, float* values, double factor, int64_t channels) {
  launch(op, scale, grid_for(channels), values, factor, channels);
}
void invert_channels(const char* op, float* inverse, const float* var, double eps, float* ones, int64_t channels) {
  launch(op, invert, grid_for(channels), inverse, var, eps, ones, channels);
}

}  // namespace tendril::cuda
