#include "tendril/tensor/raw.h"

namespace tendril::raw {
namespace {

using detail::check_defined;

/// A 0-d tensor has one line along its only "dimension".
Tensor with_a_dimension(const Tensor& x) { return x.dim() == 0 ? unsqueeze(x, 0) : x; }

/// x, which has elements, with those along `dim` in reverse; `strides` must live as long.
View from_the_end(const Tensor& x, int dim, Dims& strides) {
  strides = x.strides();
  View view = view_of(x);
  view.data = view.as<char>() + (x.sizes()[dim] - 1) * strides[dim] * static_cast<int64_t>(size_of(x.dtype()));
  strides[dim] = -strides[dim];
  view.strides = strides.data();
  view.contiguous = false;
  return view;
}

/// What the kernel takes: integers and bool add up and multiply in int64, all and any are of bool.
DType reduced_in(Reduction op, DType dtype) {
  if (op == Reduction::all || op == Reduction::any) return kBool;
  return (op == Reduction::sum || op == Reduction::prod) && !is_floating(dtype) ? kInt64 : dtype;
}

}  // namespace

Tensor reduce(Reduction op, const Tensor& x, const Dims& dims, bool keepdim) {
  const char* name = name_of(op);
  const Reduced to(x, dims, name);
  const bool needs_elements = op == Reduction::max || op == Reduction::min;
  TENDRIL_CHECK_AS(ShapeError, !needs_elements || to.count > 0, name, ": of no elements of ", x.sizes());
  const Tensor input = cast(x, reduced_in(op, x.dtype()));
  Tensor out = empty(keepdim ? to.kept : to.squeezed, input.dtype(), x.device());
  const Dims strides = contiguous_strides(to.kept);
  const View view{out.raw_data(), to.kept.data(), strides.data(), out.numel(), to.kept.size(), input.dtype(), true};
  const Kernels& table = kernels(x.device());
  require(table.reduce, name, table)(op, view, view_of(input));
  return out;
}

Tensor cumsum(const Tensor& x, int64_t dim, bool reverse) {
  check_defined(x, "cumsum");
  const int d = wrap_dim(dim, x.dim(), "cumsum");
  const Tensor input = with_a_dimension(cast(x, is_floating(x.dtype()) ? x.dtype() : kInt64));
  const Tensor out = empty_like(input);
  const Kernels& table = kernels(x.device());
  const auto kernel = require(table.cumsum, "cumsum", table);
  if (reverse && input.numel() > 0) {
    Dims out_strides, input_strides;
    kernel(from_the_end(out, d, out_strides), from_the_end(input, d, input_strides), d);
  } else {
    kernel(view_of(out), view_of(input), d);
  }
  return x.dim() == 0 ? view(out, {}) : out;
}

}  // namespace tendril::raw
