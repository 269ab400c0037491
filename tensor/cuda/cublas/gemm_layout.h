#pragma once

#include <cstdint>

#include "tendril/tensor/view.h"

/// How a product of views is said to a library that knows column-major matrices only, as BLAS does. Needs no CUDA.
namespace tendril::cuda {

/// A matrix as BLAS is told of it: element (i, j) lies at i + j ld, or at j + i ld if it is `transposed`.
struct GemmOperand {
  bool transposed = false;
  int64_t ld = 1;            ///< at least the extent of what runs along it, as BLAS demands
  int64_t batch_stride = 0;  ///< in elements; 0: the same matrix for the whole batch
  /// Its strides cannot be said to BLAS (gaps in both directions, or a stride of 0): what is described here is a
  /// row-major copy without gaps, of one matrix where the view's batch stride is 0.
  bool copied = false;
};

/// first [m, k] by second [k, n] is out [m, n], `batch` times, in BLAS's words: `out` is never transposed. Where the
/// view of the result is row-major, that is out^T = b^T a^T, so the operands are `swapped`: first is b, second is a.
struct GemmLayout {
  int64_t m = 0, n = 0, k = 0, batch = 1;
  bool swapped = false;
  GemmOperand first, second, out;

  /// Whether no number exceeds an int: BLAS's usual interface suffices.
  bool is_small() const noexcept;
};

/// For the views that Kernels::matmul takes, without empty dimensions. A batch that shares its right operand and whose
/// rows lie evenly spaced is one product of many rows.
GemmLayout gemm_layout(const View& out, const View& a, const View& b) noexcept;

}  // namespace tendril::cuda
