#include "tendril/tensor/raw.h"

/// Products of matrices, and access by index.
namespace tendril::raw {
namespace {

void check_pair(const Tensor& x, const char* x_name, const Tensor& y, const char* y_name, const char* op) {
  detail::check_defined(x, op, x_name);
  detail::check_defined(y, op, y_name);
  TENDRIL_CHECK(x.device() == y.device(), op, ": ", y_name, " is on ", y.device(), ", expected ", x.device(),
                ", as the first operand");
}

void check_int64(const Tensor& index, const char* op) {
  TENDRIL_CHECK_AS(DTypeError, index.dtype() == kInt64, op, ": the index must be int64, got ", index.dtype());
}

/// The index of whole slices, which may be int32 too, as in PyTorch; int64 as kernels want it.
Tensor slice_index(const Tensor& given, const char* op) {
  Tensor index = given.dtype() == kInt32 ? cast(given, kInt64) : given;
  check_int64(index, op);
  return index;
}

Tensor at_least_1d(const Tensor& x) { return x.dim() == 0 ? unsqueeze(x, 0) : x; }

/// gather and scatter_add: as many dimensions, and the index inside the other one but for `dim`.
void check_index_fits(const Tensor& index, const Tensor& x, int dim, const char* op) {
  TENDRIL_CHECK_AS(ShapeError, index.dim() == x.dim(), op, ": index of shape ", index.sizes(),
                   " must have as many dimensions as the tensor of shape ", x.sizes());
  for (int d = 0; d < x.dim(); ++d) {
    TENDRIL_CHECK_AS(ShapeError, d == dim || index.sizes()[d] <= x.sizes()[d], op, ": index of shape ", index.sizes(),
                     " is larger than the tensor of shape ", x.sizes(), " in dimension ", d);
  }
}

void check_line_index(const Tensor& index, const char* op) {
  TENDRIL_CHECK_AS(ShapeError, index.dim() <= 1, op, ": the index must have one dimension, got shape ", index.sizes());
}

}  // namespace

Tensor matmul(const Tensor& a, const Tensor& b) {
  check_pair(a, "a", b, "b", "matmul");
  TENDRIL_CHECK_AS(DTypeError, a.dtype() == b.dtype(), "matmul: dtypes ", a.dtype(), " and ", b.dtype(), " differ");
  const int ndim = a.dim();
  TENDRIL_CHECK_AS(ShapeError,
                   (ndim == 2 || ndim == 3) && b.dim() == ndim && a.sizes()[ndim - 1] == b.sizes()[ndim - 2] &&
                       (ndim == 2 || a.sizes()[0] == b.sizes()[0]),
                   "matmul: shapes ", a.sizes(), " and ", b.sizes(), " cannot be multiplied");
  Dims sizes = a.sizes();
  sizes[ndim - 1] = b.sizes()[ndim - 1];
  Tensor out = empty(sizes, a.dtype(), a.device());
  const Kernels& table = kernels(out.device());
  require(table.matmul, "matmul", table)(view_of(out), view_of(a), view_of(b));
  return out;
}

Tensor gather(const Tensor& x, int64_t dim, const Tensor& index, IndexUse use) {
  check_pair(x, "the tensor", index, "the index", "gather");
  const int d = wrap_dim(dim, x.dim(), "gather");
  check_index_fits(index, x, d, "gather");
  check_int64(index, "gather");
  Tensor out = empty(index.sizes(), x.dtype(), x.device());
  const Kernels& table = kernels(x.device());
  require(table.gather, "gather", table)(view_of(at_least_1d(out)), view_of(at_least_1d(x)), d,
                                         view_of(at_least_1d(index)), use);
  return out;
}

void scatter_add_(const Tensor& out, int64_t dim, const Tensor& index, const Tensor& source) {
  check_pair(out, "the tensor", index, "the index", "scatter_add");
  check_pair(out, "the tensor", source, "the source", "scatter_add");
  TENDRIL_CHECK_AS(DTypeError, out.dtype() == source.dtype(), "scatter_add: dtypes ", out.dtype(), " and ",
                   source.dtype(), " differ");
  const int d = wrap_dim(dim, out.dim(), "scatter_add");
  check_int64(index, "scatter_add");
  check_index_fits(index, out, d, "scatter_add");
  check_index_fits(index, source, -1, "scatter_add");
  if (computed_in(out.dtype()) != out.dtype()) {  // sums are kept in float32 and rounded once
    const Tensor sums = cast(out, computed_in(out.dtype()));
    scatter_add_(sums, dim, index, cast(source, sums.dtype()));
    return copy_(out, sums);
  }
  const Kernels& table = kernels(out.device());
  require(table.scatter_add, "scatter_add", table)(view_of(at_least_1d(out)), d, view_of(at_least_1d(index)),
                                                   view_of(at_least_1d(source)), IndexUse::scatter_add);
}

Tensor index_select(const Tensor& x, int64_t dim, const Tensor& index, IndexUse use) {
  check_pair(x, "the tensor", index, "the index", "index_select");
  const int d = wrap_dim(dim, x.dim(), "index_select");
  check_line_index(index, "index_select");
  const Tensor chosen = slice_index(index, "index_select");
  const Tensor source = at_least_1d(x);
  Dims sizes = source.sizes();
  sizes[d] = index.numel();
  const Tensor out = empty(sizes, x.dtype(), x.device());
  const Kernels& table = kernels(x.device());
  require(table.index_select, "index_select", table)(view_of(out), view_of(source), d, view_of(chosen), use);
  return x.dim() == 0 ? view(out, {}) : out;
}

void index_add_(const Tensor& out, int64_t dim, const Tensor& index, const Tensor& source) {
  check_pair(out, "the tensor", index, "the index", "index_add");
  check_pair(out, "the tensor", source, "the source", "index_add");
  TENDRIL_CHECK_AS(DTypeError, out.dtype() == source.dtype(), "index_add: dtypes ", out.dtype(), " and ",
                   source.dtype(), " differ");
  const int d = wrap_dim(dim, out.dim(), "index_add");
  check_line_index(index, "index_add");
  const Tensor to = at_least_1d(out), from = at_least_1d(source);
  Dims expected = to.sizes();
  expected[d] = index.numel();
  TENDRIL_CHECK_AS(ShapeError, from.sizes() == expected, "index_add: a source of shape ", source.sizes(),
                   " does not fit ", index.numel(), " indices into dimension ", d, " of ", out.sizes());
  if (computed_in(out.dtype()) != out.dtype()) {  // (as above)
    const Tensor sums = cast(out, computed_in(out.dtype()));
    index_add_(sums, dim, index, cast(source, sums.dtype()));
    return copy_(out, sums);
  }
  const Tensor chosen = slice_index(index, "index_add");
  const Kernels& table = kernels(out.device());
  require(table.index_add, "index_add", table)(view_of(to), d, view_of(chosen), view_of(from), IndexUse::index_add);
}

}  // namespace tendril::raw
