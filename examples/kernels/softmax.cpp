// Softmax: each row's exponentials divided by their sum.
#include <tendril/autograd/ops/pointwise.h>
#include <tendril/autograd/ops/softmax.h>
#include <tendril/tensor/creation.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "kernels.h"

namespace kernels {
namespace {

using Size = std::int64_t;

/// Subtracts the largest element first, so that nothing overflows. Three passes; computes each exponential twice.
void plain(const float* x, float* y, Size rows, Size n) {
  for (Size r = 0; r < rows; ++r, x += n, y += n) {
    float largest = x[0];
    for (Size i = 1; i < n; ++i) largest = std::max(largest, x[i]);
    double sum = 0;
    for (Size i = 0; i < n; ++i) sum += std::exp(x[i] - largest);
    for (Size i = 0; i < n; ++i) y[i] = static_cast<float>(std::exp(x[i] - largest) / sum);
  }
}

/// Computes each exponential once and keeps it in the result, which stays in the cache.
void exponential_once(const float* x, float* y, Size rows, Size n) {
  for (Size r = 0; r < rows; ++r, x += n, y += n) {
    const float largest = *std::max_element(x, x + n);
    float sum = 0;
    for (Size i = 0; i < n; ++i) sum += y[i] = std::exp(x[i] - largest);
    for (Size i = 0; i < n; ++i) y[i] *= 1 / sum;
  }
}

/// Finds the largest element and the sum in one pass: a new largest element rescales the sum (Milakov and Gimelshein,
/// "Online normalizer calculation for softmax", 2018). Attention uses this form, because its rows are never complete in
/// memory.
void online(const float* x, float* y, Size rows, Size n) {
  for (Size r = 0; r < rows; ++r, x += n, y += n) {
    float largest = -std::numeric_limits<float>::infinity(), sum = 0;
    for (Size i = 0; i < n; ++i) {
      if (x[i] > largest) {
        sum = sum * std::exp(largest - x[i]) + 1;
        largest = x[i];
      } else {
        sum += std::exp(x[i] - largest);
      }
    }
    for (Size i = 0; i < n; ++i) y[i] = std::exp(x[i] - largest) / sum;
  }
}

/// e^x for x <= 0 without branches or calls, so that a loop over it vectorises. Computes 2^n 2^f, with an integer n and
/// f in [-1/2, 1/2], and a power series for 2^f.
[[gnu::always_inline]] inline float exponential(float x) {
  const float scaled = std::max(x, -87.0f) * 1.44269504f;
  const auto whole = static_cast<std::int32_t>(scaled - 0.5f);  // rounds to nearest: truncation, and scaled <= 0
  const float f = (scaled - static_cast<float>(whole)) * 0.693147181f;
  const float series =
      1 + f * (1 + f * (1 / 2.0f + f * (1 / 6.0f + f * (1 / 24.0f + f * (1 / 120.0f + f * (1 / 720.0f))))));
  return series * std::bit_cast<float>((whole + 127) << 23);
}

/// Computes 16 independent sums and maxima, because the compiler must not reorder a single sum.
KERNELS_FOR_EACH_PROCESSOR void in_vectors(const float* __restrict x, float* __restrict y, Size rows, Size n) {
  constexpr Size kLanes = 16;  // n is a multiple of it
  for (Size r = 0; r < rows; ++r, x += n, y += n) {
    float best[kLanes], sums[kLanes] = {};
    std::copy_n(x, kLanes, best);
    for (Size i = kLanes; i < n; i += kLanes) {
      for (Size l = 0; l < kLanes; ++l) best[l] = best[l] < x[i + l] ? x[i + l] : best[l];
    }
    const float largest = *std::max_element(best, best + kLanes);
    for (Size i = 0; i < n; i += kLanes) {
      for (Size l = 0; l < kLanes; ++l) sums[l] += y[i + l] = exponential(x[i + l] - largest);
    }
    float sum = 0;
    for (const float part : sums) sum += part;
    const float factor = 1 / sum;
    for (Size i = 0; i < n; ++i) y[i] *= factor;
  }
}

}  // namespace

bool softmax(bool quick) {
  const Size rows = quick ? 16 : 4096, n = quick ? 64 : 1024;
  const tendril::Tensor x = tendril::randn({rows, n}) * 3, y = tendril::zeros({rows, n});
  const float* from = x.data<float>();
  float* to = y.mutable_data<float>();
  const auto elements = static_cast<double>(rows * n);
  return compare("softmax, " + std::to_string(rows) + " rows of " + std::to_string(n),
                 {.flops = 4 * elements, .bytes = 8 * elements}, y, 1e-5,
                 {{"as defined, two exponentials", [=] { plain(from, to, rows, n); }},
                  {"each exponential once", [=] { exponential_once(from, to, rows, n); }},
                  {"largest and sum in one pass", [=] { online(from, to, rows, n); }},
                  {"vectors, an exponential of our own", [=] { in_vectors(from, to, rows, n); }},
                  {"the library's, and a copy", [=] { y.copy_(x.softmax(1)); }}});
}

}  // namespace kernels
