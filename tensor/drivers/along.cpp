#include "tendril/tensor/drivers/along.h"

namespace tendril::drivers {
namespace {

/// A 0-d tensor as its one line.
Tensor with_a_dimension(const Tensor& x) { return x.dim() == 0 ? raw::view(x, {1}) : x; }

/// x, which has elements, with those along `dim` in reverse; `strides` must live as long.
View from_the_end(const Tensor& x, int dim, Dims& strides) {
  strides = x.strides();
  View view = raw::view_of(x);
  view.data = view.as<char>() + (x.sizes()[dim] - 1) * strides[dim] * static_cast<int64_t>(size_of(x.dtype()));
  strides[dim] = -strides[dim];
  view.strides = strides.data();
  view.contiguous = false;
  return view;
}

}  // namespace

void fill_lines(LineKernel kernel, const char* op, const Tensor& out, const Tensor& x, int dim) {
  detail::check_defined(out, op, "the result");
  detail::check_defined(x, op);
  const DeviceKernels table = kernels(x.device());
  const auto run = require((*table).*kernel, op, *table);
  run(raw::view_of(with_a_dimension(out)), raw::view_of(with_a_dimension(x)), dim);
}

void fill_scan(Scan op, const Tensor& out, const Tensor& indices, const Tensor& x, int dim, bool reverse) {
  detail::check_defined(out, name_of(op), "the result");
  detail::check_defined(x, name_of(op));
  if (op == Scan::max || op == Scan::min) detail::check_defined(indices, name_of(op), "the indices");
  const DeviceKernels table = kernels(x.device());
  const auto run = require(table->scan, op, *table);
  const Tensor to = with_a_dimension(out), from = with_a_dimension(x);
  if (indices.defined()) {
    const Tensor places = with_a_dimension(indices);
    const View view = raw::view_of(places);
    return run(op, raw::view_of(to), &view, raw::view_of(from), dim);
  }
  if (!reverse || from.numel() == 0) return run(op, raw::view_of(to), nullptr, raw::view_of(from), dim);
  Dims to_strides, from_strides;
  run(op, from_the_end(to, dim, to_strides), nullptr, from_the_end(from, dim, from_strides), dim);
}

Tensor find_recurrence(const Tensor& a, const Tensor& b, int dim, bool reverse) {
  detail::check_defined(a, "recurrence", "a");
  detail::check_defined(b, "recurrence", "b");
  TENDRIL_CHECK_AS(ShapeError, a.sizes() == b.sizes(), "recurrence: a: got shape ", a.sizes(), ", expected ",
                   b.sizes());
  TENDRIL_CHECK_AS(DTypeError, a.dtype() == b.dtype(), "recurrence: a: got dtype ", a.dtype(), ", expected ",
                   b.dtype());
  Tensor out = raw::empty_like(b);
  const DeviceKernels table = kernels(b.device());
  const auto run = require(table->recurrence, "recurrence", *table);
  const Tensor to = with_a_dimension(out), factors = with_a_dimension(a), summands = with_a_dimension(b);
  if (!reverse || to.numel() == 0) {
    run(raw::view_of(to), raw::view_of(factors), raw::view_of(summands), dim);
  } else {
    Dims strides[3];
    run(from_the_end(to, dim, strides[0]), from_the_end(factors, dim, strides[1]),
        from_the_end(summands, dim, strides[2]), dim);
  }
  return out;
}

Extremum find_extremum(bool largest, const Tensor& x, int dim, bool want_values, const char* op) {
  detail::check_defined(x, op);
  const Tensor lines = with_a_dimension(x);
  TENDRIL_CHECK_AS(IndexError, lines.sizes()[dim] > 0, op, ": dim ", dim, " of shape ", x.sizes(), " has no elements");
  Dims kept = lines.sizes();
  kept[dim] = 1;
  const DeviceKernels table = kernels(x.device());
  const auto run = require(table->extremum, op, *table);
  Extremum out{want_values ? raw::empty(kept, x.dtype(), x.device()) : Tensor(), raw::empty(kept, kInt64, x.device())};
  View values;
  if (want_values) values = raw::view_of(out.values);
  const View indices = raw::view_of(out.indices);
  run(largest, want_values ? &values : nullptr, &indices, raw::view_of(lines), dim);
  if (x.dim() > 0) return out;
  return {want_values ? raw::view(out.values, {}) : Tensor(), raw::view(out.indices, {})};
}

Tensor sort_places(const Tensor& x, int dim, bool descending) {
  detail::check_defined(x, "sort");
  const Tensor here = raw::transpose(kernels(x.device())->sort_places ? x : raw::to(x, kCPU), dim, -1);
  const Tensor places = raw::empty(here.sizes(), kInt64, here.device());
  const DeviceKernels table = kernels(here.device());
  require(table->sort_places, "sort", *table)(raw::view_of(places), raw::view_of(here), descending);
  return raw::contiguous(raw::transpose(raw::to(places, x.device()), dim, -1));
}

}  // namespace tendril::drivers
