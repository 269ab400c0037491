#include "tendril/tensor/drivers/by_index.h"

namespace tendril::drivers {
namespace {

void check_index(const Tensor& x, const Tensor& index, const char* op, const char* allowed = "int64") {
  detail::check_defined(x, op);
  detail::check_defined(index, op, "the index");
  TENDRIL_CHECK_AS(DTypeError, index.dtype() == kInt64, op, ": the index must be ", allowed, ", got ", index.dtype());
  TENDRIL_CHECK(index.device() == x.device(), op, ": the index is on ", index.device(), ", the tensor on ", x.device());
}

/// The index of whole slices, as kernels want it.
Tensor slice_index(const Tensor& x, const Tensor& given, const char* op) {
  const Tensor index = given.defined() && given.dtype() == kInt32 ? raw::cast(given, kInt64) : given;
  check_index(x, index, op, "int64 or int32");
  TENDRIL_CHECK_AS(ShapeError, index.dim() <= 1, op, ": the index must be a vector, got shape ", index.sizes());
  return index.dim() == 0 ? raw::view(index, {1}) : index;
}

void check_source(const Tensor& x, const Tensor& source, const char* op) {
  detail::check_defined(source, op, "the source");
  TENDRIL_CHECK_AS(DTypeError, source.dtype() == x.dtype(), op, ": the source is ", source.dtype(), ", the tensor ",
                   x.dtype());
  TENDRIL_CHECK(source.device() == x.device(), op, ": the source is on ", source.device(), ", the tensor on ",
                x.device());
}

/// A 0-d tensor as one of one element, with the same memory.
Tensor at_least_1d(const Tensor& x) { return x.dim() == 0 ? raw::view(x, {1}) : x; }

/// gather and scatter: as many dimensions (0-d and 1-d go together), and the index inside of x but for `dim`.
void check_fits(const Tensor& x, const Tensor& index, int dim, const char* op) {
  const int rank = x.dim() == 0 ? 1 : x.dim(), index_rank = x.dim() <= 1 && index.dim() == 0 ? 1 : index.dim();
  TENDRIL_CHECK_AS(ShapeError, rank == index_rank, op, ": the index has ", index.dim(), " dimensions, the tensor ",
                   x.dim());
  for (int d = 0; d < x.dim(); ++d) {
    TENDRIL_CHECK_AS(ShapeError, d == dim || index.sizes()[d] <= x.sizes()[d], op, ": index of shape ", index.sizes(),
                     " is larger than the tensor of shape ", x.sizes(), " apart from dim ", dim);
  }
}

/// The corner of x that an index of these sizes can reach: everything along `dim`, the first elements elsewhere.
Tensor corner(const Tensor& given, const Dims& sizes, int dim) {
  Tensor x = given;
  for (int d = 0; d < x.dim(); ++d) {
    if (d != dim && x.sizes()[d] != sizes[d]) x = raw::narrow(x, d, 0, sizes[d]);
  }
  return x;
}

using Scatter = void (*Kernels::*)(const View& out, int dim, const View& index, const View& source, IndexUse use);

void scatter_into(Scatter kernel, IndexUse use, const char* op, const Tensor& out, int64_t given_dim,
                  const Tensor& index, const Tensor& source) {
  check_index(out, index, op);
  check_source(out, source, op);
  const int dim = wrap_dim(given_dim, out.dim(), op);
  check_fits(out, index, dim, op);
  const Tensor to = at_least_1d(out), places = at_least_1d(index), from = at_least_1d(source);
  TENDRIL_CHECK_AS(ShapeError, from.sizes() == places.sizes(), op, ": the source has shape ", source.sizes(),
                   ", the index ", index.sizes());
  const Tensor reached = corner(to, places.sizes(), dim);
  const DeviceKernels table = kernels(out.device());
  require((*table).*kernel, op, *table)(raw::view_of(reached), dim, raw::view_of(places), raw::view_of(from), use);
}

}  // namespace

Tensor gather(const Tensor& x, int64_t given_dim, const Tensor& index, IndexUse use) {
  check_index(x, index, "gather");
  const int dim = wrap_dim(given_dim, x.dim(), "gather");
  check_fits(x, index, dim, "gather");
  const DeviceKernels table = kernels(x.device());
  const auto run = require(table->gather, "gather", *table);
  Tensor out = raw::empty(index.sizes(), x.dtype(), x.device());
  const Tensor to = at_least_1d(out), places = at_least_1d(index);
  run(raw::view_of(to), raw::view_of(corner(at_least_1d(x), places.sizes(), dim)), dim, raw::view_of(places), use);
  return out;
}

void scatter_add_(const Tensor& out, int64_t dim, const Tensor& index, const Tensor& source) {
  const auto add = [&](const Tensor& to, const Tensor& from) {
    scatter_into(&Kernels::scatter_add, IndexUse::scatter_add, "scatter_add", to, dim, index, from);
  };
  if (out.defined() && source.defined() && computed_in(out.dtype()) != out.dtype() && source.dtype() == out.dtype()) {
    const Tensor sums = raw::cast(out, computed_in(out.dtype()));
    add(sums, raw::cast(source, sums.dtype()));
    return raw::copy_(out, sums);
  }
  add(out, source);
}

void scatter_(const Tensor& out, int64_t dim, const Tensor& index, const Tensor& source) {
  scatter_into(&Kernels::scatter, IndexUse::scatter, "scatter", out, dim, index, source);
}

void index_copy_(const Tensor& out, int64_t given_dim, const Tensor& given_index, const Tensor& given_source,
                 IndexUse use) {
  const char* op = use == IndexUse::index_fill ? "index_fill" : "index_copy";
  const Tensor index = slice_index(out, given_index, op);
  check_source(out, given_source, op);
  const int dim = wrap_dim(given_dim, out.dim(), op);
  const Tensor to = at_least_1d(out);
  Dims sizes = to.sizes(), line = Dims::filled(to.dim(), 1);
  line[dim] = sizes[dim] = index.numel();
  const Tensor source = use == IndexUse::index_fill ? raw::expand(given_source, sizes) : at_least_1d(given_source);
  TENDRIL_CHECK_AS(ShapeError, source.sizes() == sizes, op, ": the source has shape ", given_source.sizes(),
                   ", expected ", sizes);
  const DeviceKernels table = kernels(out.device());
  require(table->scatter, op, *table)(raw::view_of(to), dim, raw::view_of(raw::expand(raw::view(index, line), sizes)),
                                      raw::view_of(source), use);
}

Tensor index_select(const Tensor& x, int64_t given_dim, const Tensor& given_index, IndexUse use) {
  const Tensor index = slice_index(x, given_index, "index_select");
  const int dim = wrap_dim(given_dim, x.dim(), "index_select");
  const Tensor source = at_least_1d(x);
  Dims sizes = source.sizes();
  sizes[dim] = index.numel();
  const DeviceKernels table = kernels(x.device());
  const auto run = require(table->index_select, "index_select", *table);
  const Tensor out = raw::empty(sizes, x.dtype(), x.device());
  run(raw::view_of(out), raw::view_of(source), dim, raw::view_of(index), use);
  return x.dim() == 0 ? raw::view(out, {}) : out;
}

void index_add_(const Tensor& out, int64_t given_dim, const Tensor& given_index, const Tensor& source) {
  const Tensor index = slice_index(out, given_index, "index_add");
  check_source(out, source, "index_add");
  const int dim = wrap_dim(given_dim, out.dim(), "index_add");
  Tensor to = at_least_1d(out), from = at_least_1d(source);
  Dims expected = to.sizes();
  expected[dim] = index.numel();
  TENDRIL_CHECK_AS(ShapeError, from.sizes() == expected, "index_add: the source has shape ", source.sizes(),
                   ", expected ", expected);
  const bool in_float = computed_in(out.dtype()) != out.dtype();
  if (in_float) {
    to = raw::cast(to, computed_in(out.dtype()));
    from = raw::cast(from, to.dtype());
  }
  const DeviceKernels table = kernels(out.device());
  require(table->index_add, "index_add", *table)(raw::view_of(to), dim, raw::view_of(index), raw::view_of(from),
                                                 IndexUse::index_add);
  if (in_float) raw::copy_(out, raw::view(to, out.sizes()));
}

}  // namespace tendril::drivers
