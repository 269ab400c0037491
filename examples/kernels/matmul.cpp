// c = a b for n x n matrices.
#include <tendril/autograd/ops/matmul.h>
#include <tendril/tensor/creation.h>

#include <algorithm>

#include "kernels.h"

namespace kernels {
namespace {

using Size = std::int64_t;

/// Each element by definition. Walking down a column of b costs a cache line per element.
KERNELS_FOR_EACH_PROCESSOR void plain(const float* __restrict a, const float* __restrict b, float* __restrict c,
                                      Size n) {
  for (Size i = 0; i < n; ++i) {
    for (Size j = 0; j < n; ++j) {
      float sum = 0;
      for (Size k = 0; k < n; ++k) sum += a[i * n + k] * b[k * n + j];
      c[i * n + j] = sum;
    }
  }
}

/// Reordered loops walk along rows of b and c, which uses whole cache lines and vectorises.
KERNELS_FOR_EACH_PROCESSOR void by_rows(const float* __restrict a, const float* __restrict b, float* __restrict c,
                                        Size n) {
  std::fill_n(c, n * n, 0.0f);
  for (Size i = 0; i < n; ++i) {
    for (Size k = 0; k < n; ++k) {
      for (Size j = 0; j < n; ++j) c[i * n + j] += a[i * n + k] * b[k * n + j];
    }
  }
}

/// Keeps a block of b in the cache while all rows of a use it.
KERNELS_FOR_EACH_PROCESSOR void by_blocks(const float* __restrict a, const float* __restrict b, float* __restrict c,
                                          Size n) {
  constexpr Size kDeep = 64, kWide = 384;  // 96 KiB of b
  std::fill_n(c, n * n, 0.0f);
  for (Size k0 = 0; k0 < n; k0 += kDeep) {
    for (Size j0 = 0; j0 < n; j0 += kWide) {
      const Size k1 = std::min(n, k0 + kDeep), j1 = std::min(n, j0 + kWide);
      for (Size i = 0; i < n; ++i) {
        for (Size k = k0; k < k1; ++k) {
          for (Size j = j0; j < j1; ++j) c[i * n + j] += a[i * n + k] * b[k * n + j];
        }
      }
    }
  }
}

/// Keeps a tile of 6 rows by 32 columns of c in registers during the loop over k, so that each loaded element of a and
/// b is used several times. n must be a multiple of 96.
KERNELS_FOR_EACH_PROCESSOR void in_registers(const float* __restrict a, const float* __restrict b, float* __restrict c,
                                             Size n) {
  constexpr Size kRows = 6, kColumns = 32;
  for (Size j = 0; j < n; j += kColumns) {
    for (Size i = 0; i < n; i += kRows) {
      float sums[kRows][kColumns] = {};
      for (Size k = 0; k < n; ++k) {
        const float* const row = b + k * n + j;
#pragma GCC unroll 6
        for (Size r = 0; r < kRows; ++r) {
          const float factor = a[(i + r) * n + k];
          for (Size s = 0; s < kColumns; ++s) sums[r][s] += factor * row[s];
        }
      }
      for (Size r = 0; r < kRows; ++r) std::copy_n(sums[r], kColumns, c + (i + r) * n + j);
    }
  }
}

}  // namespace

bool matmul(bool quick) {
  const Size n = quick ? 96 : 768;
  const tendril::Tensor a = tendril::randn({n, n}), b = tendril::randn({n, n}), c = tendril::zeros({n, n});
  const float *from_a = a.data<float>(), *from_b = b.data<float>();
  float* to = c.mutable_data<float>();
  const double cube = static_cast<double>(n * n * n);
  return compare("matmul, " + std::to_string(n) + " x " + std::to_string(n),
                 {.flops = 2 * cube, .bytes = 12.0 * static_cast<double>(n * n), .compute = true}, c, 1e-5,
                 {{"element by element", [=] { plain(from_a, from_b, to, n); }},
                  {"along rows", [=] { by_rows(from_a, from_b, to, n); }},
                  {"blocks that fit the cache", [=] { by_blocks(from_a, from_b, to, n); }},
                  {"a tile of c in registers", [=] { in_registers(from_a, from_b, to, n); }},
                  {"the library's", [=] { c.copy_(a.matmul(b)); }}});
}

}  // namespace kernels
