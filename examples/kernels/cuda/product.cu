#include "product.h"

#include "tendril/tensor/cuda/kernels/kernel.cuh"

namespace kernels::on_cuda {
namespace {

constexpr int kTile = 64, kDeep = 16, kOwn = 4;  // a block's tile of c, its depth, a thread's part

/// c [m, n] = a [m, k] b [k, n], for any sizes. A block of 16 x 16 threads computes a tile of 64 x 64 elements of c,
/// and each thread keeps 4 x 4 of them in registers: every 8 elements read from shared memory give 16 products.
__global__ void __launch_bounds__(256)
    product_in_registers(const float* a, const float* b, float* c, int m, int n, int k) {
  __shared__ float of_a[kDeep][kTile + 1], of_b[kDeep][kTile];  // a is transposed; + 1 avoids bank conflicts
  const int thread = static_cast<int>(threadIdx.y * 16 + threadIdx.x), x = static_cast<int>(threadIdx.x),
            y = static_cast<int>(threadIdx.y);
  const int row0 = static_cast<int>(blockIdx.y) * kTile, column0 = static_cast<int>(blockIdx.x) * kTile;
  float sums[kOwn][kOwn] = {};
  for (int k0 = 0; k0 < k; k0 += kDeep) {
    for (int i = thread; i < kTile * kDeep; i += 256) {  // neighbouring threads read neighbouring elements
      const int row = i / kDeep, deep = i % kDeep;
      of_a[deep][row] = row0 + row < m && k0 + deep < k ? a[static_cast<int64_t>(row0 + row) * k + k0 + deep] : 0;
      const int below = i / kTile, column = i % kTile;
      of_b[below][column] =
          k0 + below < k && column0 + column < n ? b[static_cast<int64_t>(k0 + below) * n + column0 + column] : 0;
    }
    __syncthreads();
    for (int deep = 0; deep < kDeep; ++deep) {
      float mine_a[kOwn], mine_b[kOwn];
      for (int i = 0; i < kOwn; ++i) mine_a[i] = of_a[deep][y + 16 * i], mine_b[i] = of_b[deep][x + 16 * i];
      for (int i = 0; i < kOwn; ++i) {
        for (int j = 0; j < kOwn; ++j) sums[i][j] += mine_a[i] * mine_b[j];
      }
    }
    __syncthreads();  // before the next tile overwrites this one
  }
  for (int i = 0; i < kOwn; ++i) {
    for (int j = 0; j < kOwn; ++j) {
      const int row = row0 + y + 16 * i, column = column0 + x + 16 * j;
      if (row < m && column < n) c[static_cast<int64_t>(row) * n + column] = sums[i][j];
    }
  }
}

}  // namespace

void launch_product(const float* a, const float* b, float* c, int m, int n, int k) {
  const auto tiles = [](int size) { return static_cast<unsigned>((size + kTile - 1) / kTile); };
  tendril::cuda::launch("product_in_registers", product_in_registers, {dim3(tiles(n), tiles(m)), dim3(16, 16)}, a, b, c,
                        m, n, k);
}

}  // namespace kernels::on_cuda
