// Layer normalisation of each row on a CUDA device, with a weight and a bias for each column.
#include <tendril/autograd/ops/layer_norm.h>
#include <tendril/tensor/creation.h>

#include "lessons.h"
#include "rows.cuh"

namespace kernels::on_cuda {
namespace {

using namespace tendril;

constexpr float kEps = 1e-5f;

struct Rows {
  const float *x, *weight, *bias;
  float* y;
  int rows, n;
};

/// One thread per row. Neighbouring threads read addresses one row apart, which are not coalesced.
__global__ void __launch_bounds__(kThreads) by_threads(Rows r) {
  const auto row = static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  if (row >= r.rows) return;
  const float* const x = r.x + static_cast<int64_t>(row) * r.n;
  float* const y = r.y + static_cast<int64_t>(row) * r.n;
  float mean = 0, variance = 0;
  for (int i = 0; i < r.n; ++i) mean += x[i];
  mean /= static_cast<float>(r.n);
  for (int i = 0; i < r.n; ++i) variance += (x[i] - mean) * (x[i] - mean);
  const float factor = rsqrtf(variance / static_cast<float>(r.n) + kEps);
  for (int i = 0; i < r.n; ++i) y[i] = (x[i] - mean) * factor * r.weight[i] + r.bias[i];
}

/// One block per row. Neighbouring threads read neighbouring elements; the row is read three times.
__global__ void __launch_bounds__(kThreads) by_blocks(Rows r) {
  __shared__ float shared[kThreads];
  const float* const x = r.x + static_cast<int64_t>(blockIdx.x) * r.n;
  float* const y = r.y + static_cast<int64_t>(blockIdx.x) * r.n;
  float sum = 0, squares = 0;
  for (int i = static_cast<int>(threadIdx.x); i < r.n; i += kThreads) sum += x[i];
  const float mean = of_block(sum, shared, Sum()) / static_cast<float>(r.n);
  for (int i = static_cast<int>(threadIdx.x); i < r.n; i += kThreads) squares += (x[i] - mean) * (x[i] - mean);
  const float factor = rsqrtf(of_block(squares, shared, Sum()) / static_cast<float>(r.n) + kEps);
  for (int i = static_cast<int>(threadIdx.x); i < r.n; i += kThreads) {
    y[i] = (x[i] - mean) * factor * r.weight[i] + r.bias[i];
  }
}

/// One warp per row. The row is read once and stays in registers: at most kWarp * kHeld elements.
__global__ void __launch_bounds__(kThreads) by_warps(Rows r) {
  const auto row = static_cast<int>((blockIdx.x * kThreads + threadIdx.x) / kWarp),
             lane = static_cast<int>(threadIdx.x % kWarp);
  if (row >= r.rows) return;  // the same for all lanes of a warp
  const float* const x = r.x + static_cast<int64_t>(row) * r.n;
  float* const y = r.y + static_cast<int64_t>(row) * r.n;
  float held[kHeld], sum = 0, squares = 0;
  for (int h = 0; h < kHeld; ++h) {
    const int i = h * kWarp + lane;
    held[h] = i < r.n ? x[i] : 0;
    sum += held[h];
  }
  const float mean = of_warp(sum, Sum()) / static_cast<float>(r.n);
  for (int h = 0; h < kHeld; ++h) {
    if (h * kWarp + lane < r.n) squares += (held[h] - mean) * (held[h] - mean);
  }
  const float factor = rsqrtf(of_warp(squares, Sum()) / static_cast<float>(r.n) + kEps);
  for (int h = 0; h < kHeld; ++h) {
    const int i = h * kWarp + lane;
    if (i < r.n) y[i] = (held[h] - mean) * factor * r.weight[i] + r.bias[i];
  }
}

}  // namespace

bool layer_norm(bool quick) {
  const int rows = quick ? 20 : 32768, n = quick ? 70 : 768;
  const Tensor x = randn({rows, n}, {.device = kDevice}), weight = rand({n}, {.device = kDevice}),
               bias = randn({n}, {.device = kDevice}), y = empty_like(x);
  const auto floats = [](const Tensor& t) { return static_cast<float*>(t.raw_data()); };
  const Rows r{floats(x), floats(weight), floats(bias), floats(y), rows, n};
  const double elements = 1.0 * rows * n;
  return compare(
      "layer norm, " + std::to_string(rows) + " rows of " + std::to_string(n),
      {.flops = 8 * elements, .bytes = 8 * elements}, y, 1e-5,
      {{"a thread a row", [=] { cuda::launch("", by_threads, blocks_for(rows), r); }},
       {"a block a row", [=] { cuda::launch("", by_blocks, blocks_for(rows * kThreads), r); }},
       {"a warp a row, in registers", [=] { cuda::launch("", by_warps, blocks_for(rows * kWarp), r); }},
       {"the library's, and a copy", [=] { Tensor(y).copy_(tendril::layer_norm(x, {n}, weight, bias, kEps)); }}});
}

}  // namespace kernels::on_cuda
