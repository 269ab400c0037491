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

Tensor along(LineKernel kernel, const char* op, const Tensor& x, int dim) {
  detail::check_defined(x, op);
  const Kernels& table = kernels(x.device());
  const auto run = require(table.*kernel, op, table);
  Tensor out = raw::empty_like(x);
  if (x.dim() == 0) {
    run(raw::view_of(with_a_dimension(out)), raw::view_of(with_a_dimension(x)), 0);
  } else {
    run(raw::view_of(out), raw::view_of(x), dim);
  }
  return out;
}

Tensor cumsum(const Tensor& x, int64_t given_dim, bool reverse) {
  detail::check_defined(x, "cumsum");
  const int dim = wrap_dim(given_dim, x.dim(), "cumsum");
  const Tensor input = raw::cast(x, is_floating(x.dtype()) ? x.dtype() : kInt64);
  if (!reverse || input.numel() == 0) return along(&Kernels::cumsum, "cumsum", input, dim);
  const Tensor lines = with_a_dimension(input);
  const Tensor out = raw::empty_like(lines);
  const Kernels& table = kernels(x.device());
  Dims out_strides, input_strides;
  require(table.cumsum, "cumsum", table)(from_the_end(out, dim, out_strides), from_the_end(lines, dim, input_strides),
                                         dim);
  return x.dim() == 0 ? raw::view(out, {}) : out;
}

Extremum extremum(bool largest, const Tensor& x, int64_t given_dim, bool want_values, const char* op) {
  detail::check_defined(x, op);
  const int dim = wrap_dim(given_dim, x.dim(), op);
  const Tensor lines = with_a_dimension(x);
  TENDRIL_CHECK_AS(IndexError, lines.sizes()[dim] > 0, op, ": dim ", dim, " of shape ", x.sizes(), " has no elements");
  Dims kept = lines.sizes();
  kept[dim] = 1;
  const Kernels& table = kernels(x.device());
  const auto run = require(table.extremum, op, table);
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
  const Tensor here = raw::transpose(kernels(x.device()).sort_places ? x : raw::to(x, kCPU), dim, -1);
  const Tensor places = raw::empty(here.sizes(), kInt64, here.device());
  const Kernels& table = kernels(here.device());
  require(table.sort_places, "sort", table)(raw::view_of(places), raw::view_of(here), descending);
  return raw::contiguous(raw::transpose(raw::to(places, x.device()), dim, -1));
}

}  // namespace tendril::drivers
