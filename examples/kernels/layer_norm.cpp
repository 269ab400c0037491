// Layer normalisation: subtracts each row's mean, divides by its standard deviation, applies a weight and a bias.
#include <tendril/autograd/ops/layer_norm.h>
#include <tendril/tensor/creation.h>

#include <cmath>

#include "kernels.h"

namespace kernels {
namespace {

using Size = std::int64_t;
constexpr float kEps = 1e-5f;

/// As in the paper (Ba, Kiros and Hinton, "Layer Normalization", 2016): three passes, in double.
void plain(const float* x, const float* w, const float* b, float* y, Size rows, Size n) {
  for (Size r = 0; r < rows; ++r, x += n, y += n) {
    double mean = 0, variance = 0;
    for (Size i = 0; i < n; ++i) mean += x[i];
    mean /= static_cast<double>(n);
    for (Size i = 0; i < n; ++i) variance += (x[i] - mean) * (x[i] - mean);
    variance /= static_cast<double>(n);
    for (Size i = 0; i < n; ++i) y[i] = static_cast<float>((x[i] - mean) / std::sqrt(variance + kEps) * w[i] + b[i]);
  }
}

/// Divides and takes the square root once per row. Computes mean and variance in one numerically stable pass (Welford,
/// 1962). Slower, because each step depends on a division in the previous step.
void welford(const float* x, const float* w, const float* b, float* y, Size rows, Size n) {
  for (Size r = 0; r < rows; ++r, x += n, y += n) {
    float mean = 0, squares = 0;
    for (Size i = 0; i < n; ++i) {
      const float off = x[i] - mean;
      mean += off / static_cast<float>(i + 1);
      squares += off * (x[i] - mean);
    }
    const float factor = 1 / std::sqrt(squares / static_cast<float>(n) + kEps);
    for (Size i = 0; i < n; ++i) y[i] = (x[i] - mean) * factor * w[i] + b[i];
  }
}

/// Two passes over a row that stays in the cache, each with 16 independent sums.
KERNELS_FOR_EACH_PROCESSOR void in_vectors(const float* __restrict x, const float* __restrict w,
                                           const float* __restrict b, float* __restrict y, Size rows, Size n) {
  constexpr Size kLanes = 16;  // n is a multiple of it
  for (Size r = 0; r < rows; ++r, x += n, y += n) {
    float sums[kLanes] = {}, squares[kLanes] = {};
    for (Size i = 0; i < n; i += kLanes) {
      for (Size l = 0; l < kLanes; ++l) sums[l] += x[i + l];
    }
    float mean = 0, variance = 0;
    for (const float part : sums) mean += part;
    mean /= static_cast<float>(n);
    for (Size i = 0; i < n; i += kLanes) {
      for (Size l = 0; l < kLanes; ++l) squares[l] += (x[i + l] - mean) * (x[i + l] - mean);
    }
    for (const float part : squares) variance += part;
    const float factor = 1 / std::sqrt(variance / static_cast<float>(n) + kEps);
    for (Size i = 0; i < n; ++i) y[i] = (x[i] - mean) * factor * w[i] + b[i];
  }
}

}  // namespace

bool layer_norm(bool quick) {
  const Size rows = quick ? 16 : 8192, n = quick ? 64 : 768;
  const tendril::Tensor x = tendril::randn({rows, n}), weight = tendril::rand({n}), bias = tendril::randn({n});
  const tendril::Tensor y = tendril::zeros({rows, n});
  const float *from = x.data<float>(), *w = weight.data<float>(), *b = bias.data<float>();
  float* to = y.mutable_data<float>();
  const auto elements = static_cast<double>(rows * n);
  return compare("layer norm, " + std::to_string(rows) + " rows of " + std::to_string(n),
                 {.flops = 8 * elements, .bytes = 8 * elements}, y, 1e-5,
                 {{"as defined, in double", [=] { plain(from, w, b, to, rows, n); }},
                  {"mean and variance in one pass", [=] { welford(from, w, b, to, rows, n); }},
                  {"vectors of sums, two passes", [=] { in_vectors(from, w, b, to, rows, n); }},
                  {"the library's, and a copy", [=] { y.copy_(tendril::layer_norm(x, {n}, weight, bias, kEps)); }}});
}

}  // namespace kernels
