#pragma once

#include "tendril/tensor/drivers/record.h"
#include "tendril/tensor/export.h"
#include "tendril/tensor/raw.h"

TENDRIL_API_BEGIN

/// The driver of operations along one dimension: shape rule, dtype, allocation, kernel, recording, errors. A 0-d tensor
/// has one line, along dimension 0 (or -1); IndexError for a dimension that there is not. The CPU walks along lines in
/// the plan of tensor/cpu/nest.h (`share_lines`).
namespace tendril::drivers {

/// A kernel that makes a line of each line: Kernels::softmax, log_softmax.
using LineKernel = void (*Kernels::*)(const View& out, const View& x, int dim);

/// Runs it on all lines of x along `dim`, in [0, dim()) or 0. `out` has x's sizes.
void fill_lines(LineKernel kernel, const char* op, const Tensor& out, const Tensor& x, int dim);

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

/// Runs Kernels::scan on all lines of x along `dim`, in [0, dim()) or 0: from the end of each with `reverse`. `out` has
/// x's sizes; `indices` are for max and min alone, which are not reversed.
void fill_scan(Scan op, const Tensor& out, const Tensor& indices, const Tensor& x, int dim, bool reverse = false);

/// The running result up to each element, or, with `reverse`, from each element to the end; op is not max or min. Sums
/// and products of integers and bool: int64. keep(out, x, dim, reverse)
template <class Gradient = Unrecorded>
Tensor scan(Scan op, const Tensor& x, int64_t given_dim, bool reverse = false) {
  detail::check_defined(x, name_of(op));
  const int dim = wrap_dim(given_dim, x.dim(), name_of(op));
  const Tensor input = raw::cast(x, is_floating(x.dtype()) ? x.dtype() : kInt64);
  Tensor out = raw::empty_like(input);
  fill_scan(op, out, Tensor(), input, dim, reverse);
  if (auto* node = Gradient::record(out, x)) node->keep(out, x, dim, reverse);
  return out;
}

/// Element i along `dim`, in [0, dim()) or 0, is a[i] times the one before it, or, with `reverse`, behind it, plus
/// b[i]. The first is b's: a's is not read. a and b are floating, of equal sizes and dtype. keep(out, a, dim, reverse)
Tensor find_recurrence(const Tensor& a, const Tensor& b, int dim, bool reverse);
template <class Gradient = Unrecorded>
Tensor recurrence(const Tensor& a, const Tensor& b, int dim, bool reverse) {
  Tensor out = find_recurrence(a, b, dim, reverse);
  if (auto* node = Gradient::record(out, a, b)) node->keep(out, a, dim, reverse);
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

/// The largest (or smallest) of the elements up to each and where each last occurs: keep(x, indices, dim)
template <class Gradient = Unrecorded>
Extremum running_extremum(bool largest, const Tensor& x, int64_t given_dim) {
  const Scan op = largest ? Scan::max : Scan::min;
  detail::check_defined(x, name_of(op));
  const int dim = wrap_dim(given_dim, x.dim(), name_of(op));
  Extremum out{raw::empty_like(x), raw::empty(x.sizes(), kInt64, x.device())};
  fill_scan(op, out.values, out.indices, x, dim);
  if (auto* node = Gradient::record(out.values, x)) node->keep(x, out.indices, dim);
  return out;
}

/// int64 places along `dim`, in [0, dim()), that put x, of one dimension or more, in order: kernels.h, `sort_places`.
/// Found on the host where the device has no kernel.
Tensor sort_places(const Tensor& x, int dim, bool descending);

}  // namespace tendril::drivers

TENDRIL_API_END
