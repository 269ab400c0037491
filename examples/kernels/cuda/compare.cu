// Measures the device's limits.
#include "tendril/tensor/cuda/kernels/kernel.cuh"

#include <tendril/tensor/creation.h>
#include <tendril/tensor/cuda/runtime.h>

#include <algorithm>

#include "lessons.h"

namespace kernels::on_cuda {
namespace {

using namespace tendril;

/// Returns the time of one run in seconds: the best of several batches, each long enough for the clock's resolution.
double seconds(const std::function<void()>& run) {
  const auto of = [&](int runs) {
    cuda::Event start(true), end(true);
    start.record();
    for (int i = 0; i < runs; ++i) run();
    end.record();
    end.synchronize();
    return 1e-3 * end.milliseconds_since(start) / runs;
  };
  const double once = of(1);
  const int runs = static_cast<int>(std::clamp(0.01 / std::max(once, 1e-6), 1.0, 1000.0));
  double best = once;
  for (int i = 0; i < (once < 0.5 ? 5 : 1); ++i) best = std::min(best, of(runs));
  return best;
}

constexpr int kThreads = 256, kChains = 8;

/// kChains independent chains of multiply-adds per thread.
__global__ void __launch_bounds__(kThreads) chains(float* out, int times) {
  float sums[kChains];
  for (int i = 0; i < kChains; ++i) sums[i] = static_cast<float>(threadIdx.x + i);
  for (int t = 0; t < times; ++t) {
    for (int i = 0; i < kChains; ++i) sums[i] = sums[i] * 0.999f + 0.001f;
  }
  float all = 0;
  for (int i = 0; i < kChains; ++i) all += sums[i];
  out[blockIdx.x * kThreads + threadIdx.x] = all;
}

Machine measured(bool quick) {
  const int blocks = quick ? 1 : 2048, times = quick ? 16 : 4096;
  const Tensor sums = empty({blocks, kThreads}, {.device = kDevice});
  auto* const out = static_cast<float*>(sums.raw_data());
  const double chained = seconds([=] {
    cuda::launch("chains", chains, {dim3(static_cast<unsigned>(blocks)), dim3(kThreads)}, out, times);
  });
  const Tensor from = zeros({quick ? 1 << 10 : 64 << 20}, {.device = kDevice}), to = empty_like(from);
  const double copied = seconds([&] { Tensor(to).copy_(from); });
  return {"the device", 2.0 * kChains * kThreads * blocks * times / chained,
          8 * static_cast<double>(from.numel()) / copied, seconds};
}

}  // namespace

bool compare(const std::string& title, const Work& work, const Tensor& result, double tolerance,
             const std::vector<Version>& versions) {
  static const Machine device = measured(result.numel() < 1 << 16);  // the times of small results do not matter
  return kernels::compare(device, title + ", on CUDA", work, result, tolerance, versions);
}

}  // namespace kernels::on_cuda
