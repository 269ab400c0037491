#include "tendril/tensor/raw.h"

namespace tendril::raw {
namespace {

using detail::check_defined;

/// Bit d is set when dimension d is to be reduced.
unsigned mask_of(const Dims& dims, int ndim, const char* op) {
  if (dims.empty()) return (1u << ndim) - 1;
  unsigned mask = 0;
  for (const int64_t dim : dims) {
    const int d = wrap_dim(dim, ndim, op);
    TENDRIL_CHECK_AS(IndexError, !(mask >> d & 1), op, ": dimension ", d, " appears twice in ", dims);
    mask |= 1u << d;
  }
  return ndim == 0 ? 0 : mask;
}

Dims reduced_sizes(const Dims& sizes, unsigned mask, bool keepdim) {
  Dims result;
  for (int d = 0; d < sizes.size(); ++d) {
    if (!(mask >> d & 1)) {
      result.push_back(sizes[d]);
    } else if (keepdim) {
      result.push_back(1);
    }
  }
  return result;
}

void check_not_empty(const Tensor& x, int dim, const char* op) {
  TENDRIL_CHECK_AS(ShapeError, x.dim() == 0 || x.sizes()[dim] > 0, op, ": dimension ", dim, " of ", x.sizes(),
                   " is empty and has no such element");
}

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

struct LineSizes {
  Dims kept;    // with size 1 at dim
  Dims result;  // as keepdim says
};
LineSizes line_sizes(const Tensor& x, int dim, bool keepdim) {
  LineSizes sizes{with_a_dimension(x).sizes(), x.sizes()};
  sizes.kept[dim] = 1;
  if (x.dim() == 0) return sizes;
  if (keepdim) {
    sizes.result[dim] = 1;
  } else {
    sizes.result.erase(dim);
  }
  return sizes;
}

}  // namespace

Tensor reduce(Reduction op, const Tensor& x, const Dims& dims, bool keepdim) {
  const char* name = name_of(op);
  check_defined(x, name);
  const unsigned mask = mask_of(dims, x.dim(), name);
  DType dtype = x.dtype();
  if (op == Reduction::all || op == Reduction::any) dtype = kBool;
  if ((op == Reduction::sum || op == Reduction::prod) && !is_floating(dtype)) dtype = kInt64;
  if (op == Reduction::max || op == Reduction::min) {
    for (int d = 0; d < x.dim(); ++d) {
      if (mask >> d & 1) check_not_empty(x, d, name);
    }
  }
  const Tensor input = cast(x, dtype);
  Tensor out = empty(reduced_sizes(x.sizes(), mask, keepdim), dtype, x.device());
  const Dims kept = reduced_sizes(x.sizes(), mask, true);
  const Dims strides = contiguous_strides(kept);
  const View to{out.raw_data(), kept.data(), strides.data(), out.numel(), kept.size(), dtype, true};
  const Kernels& table = kernels(out.device());
  require(table.reduce, name, table)(op, to, view_of(input));
  return out;
}

Extremum extremum(bool largest, const Tensor& x, int64_t dim, bool keepdim) {
  const char* name = largest ? "max" : "min";
  check_defined(x, name);
  const int d = wrap_dim(dim, x.dim(), name);
  check_not_empty(x, d, name);
  const LineSizes sizes = line_sizes(x, d, keepdim);
  const Tensor values = empty(sizes.kept, x.dtype(), x.device());
  const Tensor indices = empty(sizes.kept, kInt64, x.device());
  const Kernels& table = kernels(x.device());
  const View v = view_of(values), i = view_of(indices);
  require(table.extremum, name, table)(largest, &v, &i, view_of(with_a_dimension(x)), d);
  return {view(values, sizes.result), view(indices, sizes.result)};
}

Tensor arg_extremum(bool largest, const Tensor& x, int64_t dim, bool keepdim) {
  const char* name = largest ? "argmax" : "argmin";
  check_defined(x, name);
  const int d = wrap_dim(dim, x.dim(), name);
  check_not_empty(x, d, name);
  const LineSizes sizes = line_sizes(x, d, keepdim);
  const Tensor indices = empty(sizes.kept, kInt64, x.device());
  const Kernels& table = kernels(x.device());
  const View i = view_of(indices);
  require(table.extremum, name, table)(largest, nullptr, &i, view_of(with_a_dimension(x)), d);
  return view(indices, sizes.result);
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

namespace {

Tensor softmax_with(void (*kernel)(const View&, const View&, int), const char* op, const Tensor& x, int d) {
  TENDRIL_CHECK_AS(DTypeError, is_floating(x.dtype()), op, ": needs a floating dtype, got ", x.dtype());
  const Tensor input = with_a_dimension(x);
  const Tensor out = empty_like(input);
  kernel(view_of(out), view_of(input), d);
  return x.dim() == 0 ? view(out, {}) : out;
}

}  // namespace

Tensor softmax(const Tensor& x, int64_t dim) {
  check_defined(x, "softmax");
  const int d = wrap_dim(dim, x.dim(), "softmax");
  const Kernels& table = kernels(x.device());
  return softmax_with(require(table.softmax, "softmax", table), "softmax", x, d);
}

Tensor log_softmax(const Tensor& x, int64_t dim) {
  check_defined(x, "log_softmax");
  const int d = wrap_dim(dim, x.dim(), "log_softmax");
  const Kernels& table = kernels(x.device());
  return softmax_with(require(table.log_softmax, "log_softmax", table), "log_softmax", x, d);
}

}  // namespace tendril::raw
