// c = a b for n x n matrices, on a CUDA device.
#include <tendril/autograd/ops/matmul.h>
#include <tendril/tensor/creation.h>

#include "lessons.h"
#include "product.h"
#include "tendril/tensor/cuda/kernels/kernel.cuh"

namespace kernels::on_cuda {
namespace {

using namespace tendril;

constexpr int kSide = 16;  // width and height of a thread block

/// One thread per element. Threads of a warp, which differ in x, have different rows, so each of their simultaneous
/// reads of a touches another cache line.
__global__ void __launch_bounds__(kSide* kSide) across_rows(const float* a, const float* b, float* c, int n) {
  const auto row = static_cast<int>(blockIdx.x * kSide + threadIdx.x),
             column = static_cast<int>(blockIdx.y * kSide + threadIdx.y);
  if (row >= n || column >= n) return;
  float sum = 0;
  for (int k = 0; k < n; ++k) sum += a[row * n + k] * b[k * n + column];
  c[row * n + column] = sum;
}

/// The same with x and y exchanged: a warp reads a contiguous part of one row of b and one element of a.
__global__ void __launch_bounds__(kSide* kSide) along_rows(const float* a, const float* b, float* c, int n) {
  const auto row = static_cast<int>(blockIdx.y * kSide + threadIdx.y),
             column = static_cast<int>(blockIdx.x * kSide + threadIdx.x);
  if (row >= n || column >= n) return;
  float sum = 0;
  for (int k = 0; k < n; ++k) sum += a[row * n + k] * b[k * n + column];
  c[row * n + column] = sum;
}

/// Each block copies a tile of a and a tile of b to shared memory; each element there is used by kSide threads.
__global__ void __launch_bounds__(kSide* kSide) in_shared_tiles(const float* a, const float* b, float* c, int n) {
  __shared__ float of_a[kSide][kSide], of_b[kSide][kSide];
  const auto x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y);
  const int row = static_cast<int>(blockIdx.y) * kSide + y, column = static_cast<int>(blockIdx.x) * kSide + x;
  float sum = 0;
  for (int k0 = 0; k0 < n; k0 += kSide) {
    of_a[y][x] = row < n && k0 + x < n ? a[row * n + k0 + x] : 0;
    of_b[y][x] = k0 + y < n && column < n ? b[(k0 + y) * n + column] : 0;
    __syncthreads();
    for (int k = 0; k < kSide; ++k) sum += of_a[y][k] * of_b[k][x];
    __syncthreads();  // before the next tiles overwrite these
  }
  if (row < n && column < n) c[row * n + column] = sum;
}

}  // namespace

bool matmul(bool quick) {
  const int n = quick ? 72 : 2048;
  const Tensor a = randn({n, n}, {.device = kDevice}), b = randn({n, n}, {.device = kDevice}), c = empty_like(a);
  const auto *from_a = static_cast<const float*>(a.raw_data()), *from_b = static_cast<const float*>(b.raw_data());
  auto* const to = static_cast<float*>(c.raw_data());
  const auto blocks = static_cast<unsigned>((n + kSide - 1) / kSide);
  const cuda::Grid grid{dim3(blocks, blocks), dim3(kSide, kSide)};
  const double cube = 1.0 * n * n * n;
  return compare(
      "matmul, " + std::to_string(n) + " x " + std::to_string(n),
      {.flops = 2 * cube, .bytes = 12.0 * n * n, .compute = true}, c, 1e-5,
      {{"a thread an element, across rows", [=] { cuda::launch("", across_rows, grid, from_a, from_b, to, n); }},
       {"along rows", [=] { cuda::launch("", along_rows, grid, from_a, from_b, to, n); }},
       {"tiles in shared memory", [=] { cuda::launch("", in_shared_tiles, grid, from_a, from_b, to, n); }},
       {"4 x 4 numbers of c in registers", [=] { launch_product(from_a, from_b, to, n, n, n); }},
       {"the library's (cuBLAS), and a copy", [=] { Tensor(c).copy_(a.matmul(b)); }}});
}

}  // namespace kernels::on_cuda
