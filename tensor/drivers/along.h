#pragma once

#include "tendril/tensor/export.h"
#include "tendril/tensor/raw.h"

TENDRIL_API_BEGIN

/// The driver of operations along one dimension: shape rule, dtype, allocation, kernel, errors. A 0-d tensor has one
/// line, along dimension 0 (or -1). Results have no history: autograd/ops adds it. The CPU walks along lines in the
/// plan of tensor/cpu/nest.h (`share_lines`).
namespace tendril::drivers {

/// A kernel that makes a line of each line: Kernels::softmax, log_softmax, cumsum.
using LineKernel = void (*Kernels::*)(const View& out, const View& x, int dim);
/// Its result: contiguous, x's sizes and dtype. `dim` is in [0, dim()), or 0.
Tensor along(LineKernel kernel, const char* op, const Tensor& x, int dim);

/// Sums of the elements up to each, or, with `reverse`, from each on. Of integers and bool: int64. IndexError for a dim
/// that there is not.
Tensor cumsum(const Tensor& x, int64_t dim, bool reverse = false);

/// The largest (or smallest) elements along a dimension, which has size 1 in both, and where each first occurs; NaN
/// wins.
struct Extremum {
  Tensor values;   ///< undefined where they were not asked for
  Tensor indices;  ///< int64
};
/// IndexError for a dim that there is not, or one of size 0.
Extremum extremum(bool largest, const Tensor& x, int64_t dim, bool want_values, const char* op);

/// int64 places along `dim`, in [0, dim()), that put x, of one dimension or more, in order: kernels.h, `sort_places`.
/// Found on the host where the device has no kernel.
Tensor sort_places(const Tensor& x, int dim, bool descending);

}  // namespace tendril::drivers

TENDRIL_API_END
