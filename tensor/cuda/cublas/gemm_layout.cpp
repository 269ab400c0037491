#include "tendril/tensor/cuda/cublas/gemm_layout.h"

#include <algorithm>
#include <climits>
#include <utility>

namespace tendril::cuda {
namespace {

struct Matrix {
  bool row_major = true;
  int64_t ld = 1, batch_stride = 0;
  bool copied = false;
};

/// Whether lines of `length` elements that lie `stride` apart in `lines` lines, `apart` elements one from the next, can
/// be said by a leading dimension. Where there is one element or one line, its stride means nothing.
bool fits(int64_t length, int64_t stride, int64_t lines, int64_t apart) noexcept {
  return (length == 1 || stride == 1) && (lines == 1 || apart >= length);
}

Matrix describe(const View& x) noexcept {
  const int r = x.ndim - 2, c = r + 1;
  const int64_t rows = x.sizes[r], columns = x.sizes[c], down = x.strides[r], right = x.strides[c];
  const int64_t batch_stride = x.ndim == 3 && x.sizes[0] > 1 ? x.strides[0] : 0;
  if (batch_stride >= 0) {
    if (fits(columns, right, rows, down)) return {true, rows == 1 ? columns : down, batch_stride, false};
    if (fits(rows, down, columns, right)) return {false, columns == 1 ? rows : right, batch_stride, false};
  }
  return {true, columns, batch_stride == 0 ? 0 : rows * columns, true};
}

GemmOperand operand(const Matrix& x, bool swapped) noexcept {
  // A row-major matrix is its own transpose in column-major eyes.
  return {x.row_major != swapped, x.ld, x.batch_stride, x.copied};
}

}  // namespace

bool GemmLayout::is_small() const noexcept {
  return std::max({m, n, k, batch, first.ld, second.ld, out.ld}) <= INT_MAX;
}

GemmLayout gemm_layout(const View& out, const View& a, const View& b) noexcept {
  const int r = out.ndim - 2, c = r + 1;
  const Matrix x = describe(a), y = describe(b), z = describe(out);
  GemmLayout g{.m = out.sizes[r], .n = out.sizes[c], .k = a.sizes[c], .batch = r == 1 ? out.sizes[0] : 1};
  if (g.batch > 1 && x.row_major && z.row_major && y.batch_stride == 0 && x.batch_stride == g.m * x.ld &&
      z.batch_stride == g.m * z.ld) {
    g.m *= std::exchange(g.batch, 1);
  }
  g.swapped = z.row_major;
  g.first = operand(g.swapped ? y : x, g.swapped);
  g.second = operand(g.swapped ? x : y, g.swapped);
  g.out = {false, z.ld, z.batch_stride, z.copied};
  if (g.swapped) std::swap(g.m, g.n);
  return g;
}

}  // namespace tendril::cuda
