#pragma once

#include "tendril/tensor/cuda/kernels/map.cuh"

/// Copies between layouts whose close elements differ, such as a matrix and its transpose, by way of tiles in shared
/// memory: both sides are read and written a row of a tile at a time.
namespace tendril::cuda {

inline constexpr int kTransposeThreads = 256;

/// `padding` elements at the end of a tile's row make a column of it lie in different banks.
template <class Out>
struct Tile {
  static constexpr int size = sizeof(Out) < 4 ? 64 : 32;
  static constexpr int padding = sizeof(Out) < 4 ? 4 / sizeof(Out) : 1;
};

/// A block a tile, tile after tile: `across` of them side by side in a matrix, `per_matrix` in all of it.
template <class Out, class In>
__global__ void __launch_bounds__(kTransposeThreads)
    transpose_kernel(Out* out, In in, uint32_t rows, uint32_t columns, uint32_t out_row, uint32_t x_column,
                     Offsets<2> matrices, uint32_t across, uint32_t per_matrix, uint32_t tiles) {
  constexpr uint32_t size = Tile<Out>::size, lines = kTransposeThreads / kWarp;
  __shared__ Out tile[size][size + Tile<Out>::padding];
  const uint32_t lane = threadIdx.x % kWarp, line = threadIdx.x / kWarp;
  for (uint32_t t = blockIdx.x; t < tiles; t += gridDim.x) {
    const uint32_t matrix = t / per_matrix, place = t % per_matrix;
    const uint32_t row = place / across * size, column = place % across * size;
    uint32_t start[2];
    matrices.of(matrix, start);
    for (uint32_t j = line; j < size && column + j < columns; j += lines) {
      for (uint32_t i = lane; i < size && row + i < rows; i += kWarp) {
        const uint32_t at = start[1] + (column + j) * x_column + row + i;
        tile[j][i] = from_compute<Out>(in.template load<1>(at, true, 1).at[0]);
      }
    }
    __syncthreads();
    for (uint32_t j = line; j < size && row + j < rows; j += lines) {
      for (uint32_t i = lane; i < size && column + i < columns; i += kWarp) {
        out[start[0] + (row + j) * out_row + column + i] = tile[i][j];
      }
    }
    __syncthreads();
  }
}

/// `out` and `in` are where the matrices start; they have less than 2^31 elements.
template <class Out, class In>
void transpose(const char* op, const Transposition& t, Out* out, const In& in) {
  constexpr int64_t size = Tile<Out>::size;
  const int64_t across = (t.columns + size - 1) / size, per_matrix = across * ((t.rows + size - 1) / size);
  int64_t tiles = per_matrix;
  for (int d = 0; d < t.matrices.ndim; ++d) tiles *= t.matrices.sizes[static_cast<std::size_t>(d)];
  launch(op, transpose_kernel<Out, In>, grid_for(tiles * kTransposeThreads, kTransposeThreads), out, in,
         static_cast<uint32_t>(t.rows), static_cast<uint32_t>(t.columns), static_cast<uint32_t>(t.out_row),
         static_cast<uint32_t>(t.x_column), Offsets<2>(t.matrices), static_cast<uint32_t>(across),
         static_cast<uint32_t>(per_matrix), static_cast<uint32_t>(tiles));
}

}  // namespace tendril::cuda
