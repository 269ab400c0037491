// A 3 x 3 convolution with padding 1: an image [channels, size, size] to as many channels of the same size.
#include <tendril/autograd/ops/conv.h>
#include <tendril/autograd/ops/matmul.h>
#include <tendril/tensor/creation.h>

#include <algorithm>
#include <vector>

#include "kernels.h"

namespace kernels {
namespace {

using Size = std::int64_t;

/// By definition: visits the window of each output element and checks every position against the border.
void plain(const float* x, const float* w, float* y, Size channels, Size size) {
  for (Size o = 0; o < channels; ++o) {
    for (Size i = 0; i < size; ++i) {
      for (Size j = 0; j < size; ++j) {
        float sum = 0;
        for (Size c = 0; c < channels; ++c) {
          for (Size u = -1; u <= 1; ++u) {
            for (Size v = -1; v <= 1; ++v) {
              if (i + u < 0 || i + u >= size || j + v < 0 || j + v >= size) continue;
              sum += x[(c * size + i + u) * size + j + v] * w[(o * channels + c) * 9 + (u + 1) * 3 + v + 1];
            }
          }
        }
        y[(o * size + i) * size + j] = sum;
      }
    }
  }
}

/// Applies one weight at a time along a whole row of the image. The border is checked once per row, so the inner loop
/// vectorises.
KERNELS_FOR_EACH_PROCESSOR void along_rows(const float* __restrict x, const float* __restrict w, float* __restrict y,
                                           Size channels, Size size) {
  std::fill_n(y, channels * size * size, 0.0f);
  for (Size o = 0; o < channels; ++o) {
    for (Size c = 0; c < channels; ++c) {
      for (Size u = -1; u <= 1; ++u) {
        for (Size v = -1; v <= 1; ++v) {
          const float weight = w[(o * channels + c) * 9 + (u + 1) * 3 + v + 1];
          for (Size i = std::max<Size>(0, -u); i < std::min(size, size - u); ++i) {
            float* const to = y + (o * size + i) * size;
            const float* const from = x + (c * size + i + u) * size;
            for (Size j = std::max<Size>(0, -v); j < std::min(size, size - v); ++j) to[j] += weight * from[j + v];
          }
        }
      }
    }
  }
}

/// Copies each window into a column of a matrix ("im2col"). This takes nine times the memory; the convolution is then a
/// matrix product.
void columns_of(const float* x, float* columns, Size channels, Size size) {
  for (Size c = 0; c < channels; ++c) {
    for (Size u = -1; u <= 1; ++u) {
      for (Size v = -1; v <= 1; ++v) {
        for (Size i = 0; i < size; ++i, columns += size) {
          for (Size j = 0; j < size; ++j) {
            const bool inside = i + u >= 0 && i + u < size && j + v >= 0 && j + v < size;
            columns[j] = inside ? x[(c * size + i + u) * size + j + v] : 0;
          }
        }
      }
    }
  }
}

}  // namespace

bool convolution(bool quick) {
  const Size channels = quick ? 4 : 64, size = quick ? 12 : 56, places = size * size;
  const tendril::Tensor x = tendril::randn({1, channels, size, size});
  const tendril::Tensor w = tendril::randn({channels, channels, 3, 3});
  const tendril::Tensor y = tendril::zeros({1, channels, size, size});
  const tendril::Tensor columns = tendril::zeros({channels * 9, places}), rows = w.reshape({channels, channels * 9});
  const float *from = x.data<float>(), *weights = w.data<float>();
  float *to = y.mutable_data<float>(), *matrix = columns.mutable_data<float>();
  return compare("3 x 3 convolution, " + std::to_string(channels) + " channels of " + std::to_string(size) + " x " +
                     std::to_string(size),
                 {.flops = 18.0 * static_cast<double>(channels * channels * places),
                  .bytes = 4.0 * static_cast<double>(channels * places * 2 + channels * channels * 9),
                  .compute = true},
                 y, 1e-5,
                 {{"as defined", [=] { plain(from, weights, to, channels, size); }},
                  {"along rows of the image", [=] { along_rows(from, weights, to, channels, size); }},
                  {"windows as columns, and a product",
                   [=] {
                     columns_of(from, matrix, channels, size);
                     y.copy_(rows.matmul(columns).reshape({1, channels, size, size}));
                   }},
                  {"the library's", [=] { y.copy_(tendril::conv2d(x, w, {}, {.padding = 1})); }}});
}

}  // namespace kernels
