#include "tendril/tensor/cuda/cuda.h"
#include "tendril/tensor/cuda/kernels/kernel.cuh"
#include "tendril/tensor/cuda/kernels/map.cuh"
#include "tendril/tensor/cuda/runtime/capture.h"
#include "tendril/tensor/detail/draw.h"

namespace tendril::cuda {
namespace {

constexpr int kThreads = 256;

/// A thread a Philox block, as random.cu's.
template <class T>
__global__ void __launch_bounds__(kThreads)
    dropout_kernel(T* out, const T* x, int64_t numel, Compute<T> scale, uint64_t seed, uint64_t offset,
                   tendril::detail::DrawBernoulli draw) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; 4 * i < numel; i += step) {
    const auto kept = draw(philox::block(seed, offset + static_cast<uint64_t>(i)));
    const auto rest = static_cast<uint32_t>(numel - 4 * i < 4 ? numel - 4 * i : 4);
    for (uint32_t k = 0; k < rest; ++k) {
      const int64_t at = 4 * i + k;
      out[at] = from_compute<T>(kept[k] != 0 ? to_compute(x[at]) * scale : Compute<T>(0));
    }
  }
}

}  // namespace

void dropout(const View& out, const View& x, double p, uint64_t seed, uint64_t offset) {
  visit_floating("dropout", out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (out.numel == 0) return;
    refuse_unless_renewed("dropout", "each replay would draw the same numbers");
    const auto scale = static_cast<Compute<T>>(p < 1 ? 1 / (1 - p) : 0.0);
    launch("dropout", dropout_kernel<T>, grid_for((out.numel + 3) / 4, kThreads), out.as<T>(), x.as<const T>(),
           out.numel, scale, seed, offset, tendril::detail::DrawBernoulli(1 - p));
  });
}

}  // namespace tendril::cuda
