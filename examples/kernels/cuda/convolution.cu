// A 3 x 3 convolution with padding 1 on a CUDA device: an image [channels, size, size] to one of the same size.
#include <tendril/autograd/ops/conv.h>
#include <tendril/tensor/creation.h>
#include <tendril/tensor/cuda/math_mode.h>

#include "lessons.h"
#include "product.h"
#include "tendril/tensor/cuda/kernels/kernel.cuh"

namespace kernels::on_cuda {
namespace {

using namespace tendril;

constexpr int kSide = 16;     // width and height of a thread block and of its output tile
constexpr int kTogether = 8;  // output channels per thread

struct Images {
  const float *x, *w;
  float* y;
  int channels, size;
};

/// One thread per output element, which reads its whole window from global memory. z: output channel.
__global__ void __launch_bounds__(kSide* kSide) plain(Images m) {
  const auto i = static_cast<int>(blockIdx.y * kSide + threadIdx.y),
             j = static_cast<int>(blockIdx.x * kSide + threadIdx.x), o = static_cast<int>(blockIdx.z);
  if (i >= m.size || j >= m.size) return;
  float sum = 0;
  for (int c = 0; c < m.channels; ++c) {
    for (int u = -1; u <= 1; ++u) {
      for (int v = -1; v <= 1; ++v) {
        if (i + u < 0 || i + u >= m.size || j + v < 0 || j + v >= m.size) continue;
        sum += m.x[(c * m.size + i + u) * m.size + j + v] * m.w[(o * m.channels + c) * 9 + (u + 1) * 3 + v + 1];
      }
    }
  }
  m.y[(o * m.size + i) * m.size + j] = sum;
}

/// Each block copies one channel's tile with its border to shared memory; each thread computes kTogether output
/// channels from its window. z: the first of these channels.
__global__ void __launch_bounds__(kSide* kSide) in_shared_tiles(Images m) {
  __shared__ float tile[kSide + 2][kSide + 2];
  const auto x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y);
  const int i0 = static_cast<int>(blockIdx.y) * kSide - 1, j0 = static_cast<int>(blockIdx.x) * kSide - 1,
            o0 = static_cast<int>(blockIdx.z) * kTogether;
  float sums[kTogether] = {};
  for (int c = 0; c < m.channels; ++c) {
    for (int at = y * kSide + x; at < (kSide + 2) * (kSide + 2); at += kSide * kSide) {
      const int i = i0 + at / (kSide + 2), j = j0 + at % (kSide + 2);
      const bool within = i >= 0 && i < m.size && j >= 0 && j < m.size;
      tile[at / (kSide + 2)][at % (kSide + 2)] = within ? m.x[(c * m.size + i) * m.size + j] : 0;
    }
    __syncthreads();
    for (int o = 0; o < kTogether && o0 + o < m.channels; ++o) {
      const float* const w = m.w + ((o0 + o) * m.channels + c) * 9;  // the same address for all threads: one load
      for (int u = 0; u < 3; ++u) {
        for (int v = 0; v < 3; ++v) sums[o] += tile[y + u][x + v] * w[u * 3 + v];
      }
    }
    __syncthreads();  // before the next channel overwrites the tile
  }
  const int i = i0 + 1 + y, j = j0 + 1 + x;
  if (i >= m.size || j >= m.size) return;
  for (int o = 0; o < kTogether && o0 + o < m.channels; ++o) m.y[((o0 + o) * m.size + i) * m.size + j] = sums[o];
}

/// Writes columns [channels * 9, size * size]: each window element for each output position.
__global__ void __launch_bounds__(kSide* kSide) windows(Images m, float* columns) {
  const auto i = static_cast<int>(blockIdx.y * kSide + threadIdx.y),
             j = static_cast<int>(blockIdx.x * kSide + threadIdx.x), row = static_cast<int>(blockIdx.z);
  if (i >= m.size || j >= m.size) return;
  const int from_i = i + row % 9 / 3 - 1, from_j = j + row % 3 - 1;
  const bool within = from_i >= 0 && from_i < m.size && from_j >= 0 && from_j < m.size;
  columns[(row * m.size + i) * m.size + j] = within ? m.x[(row / 9 * m.size + from_i) * m.size + from_j] : 0;
}

}  // namespace

bool convolution(bool quick) {
  cuda::set_convolution_tf32(false);  // float32 products, as in the kernels here
  const int channels = quick ? 10 : 64, size = quick ? 18 : 224;
  const Tensor x = randn({1, channels, size, size}, {.device = kDevice}),
               w = randn({channels, channels, 3, 3}, {.device = kDevice}), y = empty_like(x),
               columns = empty({channels * 9, size * size}, {.device = kDevice});
  const auto floats = [](const Tensor& t) { return static_cast<float*>(t.raw_data()); };
  const Images images{floats(x), floats(w), floats(y), channels, size};
  float* const matrix = floats(columns);
  const auto grid = [=](int deep) {
    const auto side = static_cast<unsigned>((size + kSide - 1) / kSide);
    return cuda::Grid{dim3(side, side, static_cast<unsigned>(deep)), dim3(kSide, kSide)};
  };
  const double places = 1.0 * size * size;
  return compare(
      "3 x 3 convolution, " + std::to_string(channels) + " channels of " + std::to_string(size) + " x " +
          std::to_string(size),
      {.flops = 18.0 * channels * channels * places,
       .bytes = 4.0 * (2 * channels * places + 9.0 * channels * channels),
       .compute = true},
      y, 1e-5,
      {{"a thread a number, as defined", [=] { cuda::launch("", plain, grid(channels), images); }},
       {"tiles in shared memory, 8 channels a thread",
        [=] { cuda::launch("", in_shared_tiles, grid((channels + kTogether - 1) / kTogether), images); }},
       {"windows as columns, and a product",
        [=] {
          cuda::launch("", windows, grid(channels * 9), images, matrix);
          launch_product(images.w, matrix, images.y, channels, size * size, channels * 9);
        }},
       {"the library's (cuDNN), and a copy", [=] { Tensor(y).copy_(tendril::conv2d(x, w, {}, {.padding = 1})); }}});
}

}  // namespace kernels::on_cuda
