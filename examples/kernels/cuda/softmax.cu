// Softmax of each row on a CUDA device.
#include <tendril/autograd/ops/pointwise.h>
#include <tendril/autograd/ops/softmax.h>

#include <tendril/tensor/creation.h>

#include "lessons.h"
#include "rows.cuh"

namespace kernels::on_cuda {
namespace {

using namespace tendril;

/// One thread per row. Neighbouring threads read addresses one row apart, which are not coalesced.
__global__ void __launch_bounds__(kThreads) by_threads(const float* x, float* y, int rows, int n) {
  const auto row = static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  if (row >= rows) return;
  x += static_cast<int64_t>(row) * n, y += static_cast<int64_t>(row) * n;
  float largest = x[0], sum = 0;
  for (int i = 1; i < n; ++i) largest = fmaxf(largest, x[i]);
  for (int i = 0; i < n; ++i) sum += expf(x[i] - largest);
  for (int i = 0; i < n; ++i) y[i] = expf(x[i] - largest) / sum;
}

/// One block per row. Neighbouring threads read neighbouring elements; partial results are combined in shared memory.
__global__ void __launch_bounds__(kThreads) by_blocks(const float* x, float* y, int n) {
  __shared__ float shared[kThreads];
  x += static_cast<int64_t>(blockIdx.x) * n, y += static_cast<int64_t>(blockIdx.x) * n;
  float largest = -INFINITY, sum = 0;
  for (int i = static_cast<int>(threadIdx.x); i < n; i += kThreads) largest = fmaxf(largest, x[i]);
  largest = of_block(largest, shared, Larger());
  for (int i = static_cast<int>(threadIdx.x); i < n; i += kThreads) sum += expf(x[i] - largest);
  sum = of_block(sum, shared, Sum());
  for (int i = static_cast<int>(threadIdx.x); i < n; i += kThreads) y[i] = expf(x[i] - largest) / sum;
}

/// One warp per row. The row is read once and stays in registers: at most kWarp * kHeld elements. Lanes exchange
/// partial results directly.
__global__ void __launch_bounds__(kThreads) by_warps(const float* x, float* y, int rows, int n) {
  const auto row = static_cast<int>((blockIdx.x * kThreads + threadIdx.x) / kWarp),
             lane = static_cast<int>(threadIdx.x % kWarp);
  if (row >= rows) return;  // the same for all lanes of a warp
  x += static_cast<int64_t>(row) * n, y += static_cast<int64_t>(row) * n;
  float held[kHeld], largest = -INFINITY, sum = 0;
  for (int h = 0; h < kHeld; ++h) {
    const int i = h * kWarp + lane;
    held[h] = i < n ? x[i] : -INFINITY;
    largest = fmaxf(largest, held[h]);
  }
  largest = of_warp(largest, Larger());
  for (int h = 0; h < kHeld; ++h) sum += held[h] = expf(held[h] - largest);
  const float factor = 1 / of_warp(sum, Sum());
  for (int h = 0; h < kHeld; ++h) {
    const int i = h * kWarp + lane;
    if (i < n) y[i] = held[h] * factor;
  }
}

}  // namespace

bool softmax(bool quick) {
  const int rows = quick ? 20 : 16384, n = quick ? 70 : 1024;
  const Tensor x = 3 * randn({rows, n}, {.device = kDevice}), y = empty_like(x);
  const auto* const from = static_cast<const float*>(x.raw_data());
  auto* const to = static_cast<float*>(y.raw_data());
  const double elements = 1.0 * rows * n;
  return compare(
      "softmax, " + std::to_string(rows) + " rows of " + std::to_string(n),
      {.flops = 4 * elements, .bytes = 8 * elements}, y, 1e-5,
      {{"a thread a row", [=] { cuda::launch("", by_threads, blocks_for(rows), from, to, rows, n); }},
       {"a block a row", [=] { cuda::launch("", by_blocks, blocks_for(rows * kThreads), from, to, n); }},
       {"a warp a row, in registers", [=] { cuda::launch("", by_warps, blocks_for(rows * kWarp), from, to, rows, n); }},
       {"the library's, and a copy", [=] { Tensor(y).copy_(x.softmax(1)); }}});
}

}  // namespace kernels::on_cuda
