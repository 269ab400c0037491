#include "tendril/tensor/cuda/cuda.h"
#include "tendril/tensor/cuda/kernels/element.cuh"

/// Products of integers, which cuBLAS does not compute: exact modulo the dtype's range, as on the CPU.
namespace tendril::cuda {
namespace {

constexpr int kTile = 16;

struct Matrix {
  void* data;
  int64_t batch, row, column;  // strides
};
struct Sizes {
  int64_t batch, m, n, k, row_tiles, column_tiles;
};

/// A block computes one tile of the result after another, from tiles of both operands that all of its threads share.
template <class T>
__global__ void __launch_bounds__(kTile* kTile) multiply_tiles(Matrix out, Matrix a, Matrix b, Sizes s) {
  __shared__ T of_a[kTile][kTile + 1], of_b[kTile][kTile + 1];
  const int x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y);
  const int64_t tiles = s.batch * s.row_tiles * s.column_tiles;
  for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const int64_t item = tile / (s.row_tiles * s.column_tiles), place = tile % (s.row_tiles * s.column_tiles);
    const int64_t row = place / s.column_tiles * kTile + y, column = place % s.column_tiles * kTile + x;
    const T* a_row = static_cast<const T*>(a.data) + item * a.batch + row * a.row;
    const T* b_column = static_cast<const T*>(b.data) + item * b.batch + column * b.column;
    uint64_t sum = 0;  // wraps around, which signed numbers must not
    for (int64_t start = 0; start < s.k; start += kTile) {
      const int64_t at_a = start + x, at_b = start + y;
      of_a[y][x] = row < s.m && at_a < s.k ? a_row[at_a * a.column] : T(0);
      of_b[y][x] = column < s.n && at_b < s.k ? b_column[at_b * b.row] : T(0);
      __syncthreads();
      for (int i = 0; i < kTile; ++i) sum += static_cast<uint64_t>(of_a[y][i]) * static_cast<uint64_t>(of_b[i][x]);
      __syncthreads();
    }
    if (row < s.m && column < s.n) {
      static_cast<T*>(out.data)[item * out.batch + row * out.row + column * out.column] = static_cast<T>(sum);
    }
  }
}

Matrix matrix_of(const View& x) {
  const int r = x.ndim - 2;
  return {x.data, r == 1 ? x.strides[0] : 0, x.strides[r], x.strides[r + 1]};
}

}  // namespace

void matmul_integers(const View& out, const View& a, const View& b) {
  if (out.numel == 0) return;
  const int r = out.ndim - 2;
  Sizes s{r == 1 ? out.sizes[0] : 1, out.sizes[r], out.sizes[r + 1], a.sizes[r + 1], 0, 0};
  s.row_tiles = (s.m + kTile - 1) / kTile;
  s.column_tiles = (s.n + kTile - 1) / kTile;
  Grid grid = grid_for(s.batch * s.row_tiles * s.column_tiles, 1);
  grid.threads = dim3(kTile, kTile);
  const auto run = [&](auto* kernel) { launch("matmul", kernel, grid, matrix_of(out), matrix_of(a), matrix_of(b), s); };
  visit_integers("matmul", out.dtype, [&](auto tag) { run(multiply_tiles<typename decltype(tag)::type>); });
}

}  // namespace tendril::cuda
