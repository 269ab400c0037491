#pragma once

#include "tendril/tensor/drivers/record.h"
#include "tendril/tensor/export.h"
#include "tendril/tensor/raw.h"

TENDRIL_API_BEGIN

/// The driver of operations along one dimension: shape rule, dtype, allocation, kernel, recording, errors. A 0-d tensor
/// has one line, along dimension 0 (or -1); IndexError for a dimension that there is not. The CPU walks along lines in
/// the plan of tensor/cpu/nest.h (`share_lines`).
namespace tendril::drivers {

/// A kernel that makes a line of each line: Kernels::softmax, log_softmax, cumsum.
using LineKernel = void (*Kernels::*)(const View& out, const View& x, int dim);

/// Runs it on all lines of x along `dim`, in [0, dim()) or 0: backwards, each from its end, with `reverse`. `out` has
/// x's sizes.
void fill_lines(LineKernel kernel, const char* op, const Tensor& out, const Tensor& x, int dim, bool reverse = false);

/// Contiguous, x's sizes and dtype: keep(out, dim)
template <class Gradient = Unrecorded>
Tensor along(LineKernel kernel, const char* op, const Tensor& x, int64_t given_dim) {
  detail::check_defined(x, op);
  const int dim = wrap_dim(given_dim, x.dim(), op);
  Tensor out = raw::empty_like(x);
  fill_lines(kernel, op, out, x, dim);
  if (auto* node = Gradient::record(out, x)) node->keep(out, dim);
  return out;
}

/// Sums of the elements up to each, or, with `reverse`, from each on. Of integers and bool: int64. keep(dim, reverse)
template <class Gradient = Unrecorded>
Tensor cumsum(const Tensor& x, int64_t given_dim, bool reverse = false) {
  detail::check_defined(x, "cumsum");
  const int dim = wrap_dim(given_dim, x.dim(), "cumsum");
  const Tensor input = raw::cast(x, is_floating(x.dtype()) ? x.dtype() : kInt64);
  Tensor out = raw::empty_like(input);
  fill_lines(&Kernels::cumsum, "cumsum", out, input, dim, reverse);
  if (auto* node = Gradient::record(out, x)) node->keep(dim, reverse);
  return out;
}

/// The largest (or smallest) elements along a dimension and where each first occurs; NaN wins.
struct Extremum {
  Tensor values;   ///< undefined where they were not asked for
  Tensor indices;  ///< int64
};
/// ... with size 1 along `dim`, in [0, dim()) or 0. IndexError for one of size 0.
Extremum find_extremum(bool largest, const Tensor& x, int dim, bool want_values, const char* op);

/// keep(x, indices, dim), where the indices have size 1 along `dim` whatever `keepdim` says.
template <class Gradient = Unrecorded>
Extremum extremum(bool largest, const Tensor& x, int64_t given_dim, bool keepdim, bool want_values, const char* op) {
  detail::check_defined(x, op);
  const int dim = wrap_dim(given_dim, x.dim(), op);
  const Extremum kept = find_extremum(largest, x, dim, want_values, op);
  Dims sizes = kept.indices.sizes();
  if (!keepdim && !sizes.empty()) sizes.erase(dim);
  Extremum out{want_values ? raw::view(kept.values, sizes) : Tensor(), raw::view(kept.indices, sizes)};
  if (!want_values) return out;
  if (auto* node = Gradient::record(out.values, x)) node->keep(x, kept.indices, dim);
  return out;
}

/// int64 places along `dim`, in [0, dim()), that put x, of one dimension or more, in order: kernels.h, `sort_places`.
/// Found on the host where the device has no kernel.
Tensor sort_places(const Tensor& x, int dim, bool descending);

}  // namespace tendril::drivers

TENDRIL_API_END
