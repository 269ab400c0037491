// Reading and adding by index. Indices are int64 and lie in [0, size): the kernels check each value.
#include "tendril/autograd/history.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/tensor/creation.h"
#include "tendril/tensor/raw.h"

namespace tendril {

namespace {

using autograd::NodeOf;
using autograd::track;

void check_index(const Tensor& x, const Tensor& index, const char* op) {
  detail::check_defined(x, op);
  detail::check_defined(index, op, "the index");
  TENDRIL_CHECK_AS(DTypeError, index.dtype() == kInt64, op, ": the index must be int64, got ", index.dtype());
  TENDRIL_CHECK(index.device() == x.device(), op, ": the index is on ", index.device(), ", the tensor on ", x.device());
}

/// PyTorch treats a 0-d tensor as one of one element here.
Tensor at_least_1d(const Tensor& x) { return x.dim() == 0 ? x.reshape({1}) : x; }

/// The index of whole slices: a vector, which may be int32 too, as in PyTorch; int64 as kernels want it.
Tensor slice_index(const Tensor& x, const Tensor& given, const char* op) {
  const Tensor index = given.defined() && given.dtype() == kInt32 ? raw::cast(given, kInt64) : given;
  check_index(x, index, op);
  TENDRIL_CHECK_AS(ShapeError, index.dim() <= 1, op, ": the index must be a vector, got shape ", index.sizes());
  return at_least_1d(index);
}

void check_same_rank(const Tensor& x, const Tensor& index, int dim, const char* op) {
  TENDRIL_CHECK_AS(ShapeError, index.dim() == x.dim(), op, ": the index has ", index.dim(), " dimensions, the tensor ",
                   x.dim());
  for (int d = 0; d < x.dim(); ++d) {
    TENDRIL_CHECK_AS(ShapeError, d == dim || index.sizes()[d] <= x.sizes()[d], op, ": index of shape ", index.sizes(),
                     " is larger than the tensor of shape ", x.sizes(), " apart from dim ", dim);
  }
}

/// The corner of x that an index of these sizes can reach: everything along `dim`, the first elements elsewhere.
Tensor corner(Tensor x, const Dims& sizes, int dim) {
  for (int d = 0; d < x.dim(); ++d) {
    if (d != dim && x.sizes()[d] != sizes[d]) x = raw::narrow(x, d, 0, sizes[d]);
  }
  return x;
}

struct GatherBackward : NodeOf<GatherBackward, 1, 1> {
  static constexpr const char* kName = "GatherBackward";
  Dims sizes;
  int dim = 0;

  void backward(const Tensor& g, std::span<Tensor> dx) {
    dx[0] = raw::zeros(sizes, g.dtype(), g.device()).scatter_add(dim, saved(0), g);
  }
};

struct ScatterAddBackward : NodeOf<ScatterAddBackward, 2, 1> {
  static constexpr const char* kName = "ScatterAddBackward";
  int dim = 0;

  void backward(const Tensor& g, std::span<Tensor> dx) {
    dx[0] = g;
    if (needs_grad(1)) dx[1] = g.gather(dim, saved(0));
  }
};

struct ScatterBackward : NodeOf<ScatterBackward, 2, 1> {
  static constexpr const char* kName = "ScatterBackward";
  int dim = 0;

  void backward(const Tensor& g, std::span<Tensor> dx) {
    if (needs_grad(0)) dx[0] = g.scatter(dim, saved(0), 0);
    if (needs_grad(1)) dx[1] = g.gather(dim, saved(0));
  }
};

struct IndexSelectBackward : NodeOf<IndexSelectBackward, 1, 1> {
  static constexpr const char* kName = "IndexSelectBackward";
  Dims sizes;
  int dim = 0;

  void backward(const Tensor& g, std::span<Tensor> dx) {
    dx[0] = raw::zeros(sizes, g.dtype(), g.device()).index_add(dim, saved(0), g);
  }
};

struct IndexAddBackward : NodeOf<IndexAddBackward, 2, 1> {
  static constexpr const char* kName = "IndexAddBackward";
  int dim = 0;

  void backward(const Tensor& g, std::span<Tensor> dx) {
    dx[0] = g;
    if (needs_grad(1)) dx[1] = g.index_select(dim, saved(0));
  }
};

/// The first elements of a source that is larger than the index. Recorded, so that the others get a gradient of 0.
Tensor covered(Tensor source, const Dims& index, const char* op) {
  bool fits = source.dim() == index.size();
  for (int d = 0; fits && d < source.dim(); ++d) fits = index[d] <= source.sizes()[d];
  TENDRIL_CHECK_AS(ShapeError, fits, op, ": the source has shape ", source.sizes(), ", the index ", index);
  for (int d = 0; d < source.dim(); ++d) {
    if (source.sizes()[d] != index[d]) source = source.narrow(d, 0, index[d]);
  }
  return source;
}

void check_source(const Tensor& x, const Tensor& source, const char* op) {
  detail::check_defined(source, op, "the source");
  TENDRIL_CHECK_AS(DTypeError, source.dtype() == x.dtype(), op, ": the source is ", source.dtype(), ", the tensor ",
                   x.dtype());
  TENDRIL_CHECK(source.device() == x.device(), op, ": the source is on ", source.device(), ", the tensor on ",
                x.device());
}

}  // namespace

Tensor Tensor::gather(int64_t given_dim, const Tensor& index) const {
  check_index(*this, index, "gather");
  if (dim() == 0) {
    TENDRIL_CHECK_AS(ShapeError, index.dim() <= 1, "gather: an index of shape ", index.sizes(), " for a 0-d tensor");
    return reshape({1}).gather(given_dim, at_least_1d(index)).reshape(index.sizes());
  }
  const int d = wrap_dim(given_dim, dim(), "gather");
  check_same_rank(*this, index, d, "gather");
  const Kernels& table = kernels(device());
  Tensor out = raw::empty(index.sizes(), dtype(), device());
  const Tensor reached = corner(autograd::detail::alias(*this), index.sizes(), d);
  require(table.gather, "gather", table)(raw::view_of(out), raw::view_of(reached), d, raw::view_of(index),
                                         IndexUse::gather);
  if (auto* n = track<GatherBackward>(out, *this)) {
    n->save(0, index);
    n->sizes = sizes();
    n->dim = d;
  }
  return out;
}

Tensor Tensor::scatter_add(int64_t given_dim, const Tensor& index, const Tensor& source) const {
  check_index(*this, index, "scatter_add");
  check_source(*this, source, "scatter_add");
  if (const DType wide = computed_in(dtype()); wide != dtype()) {  // sums are kept in float32 and rounded once
    return to(wide).scatter_add(given_dim, index, source.to(wide)).to(dtype());
  }
  if (dim() == 0) {
    return reshape({1}).scatter_add(given_dim, at_least_1d(index), at_least_1d(source)).reshape({});
  }
  const int d = wrap_dim(given_dim, dim(), "scatter_add");
  check_same_rank(*this, index, d, "scatter_add");
  if (source.sizes() != index.sizes()) return scatter_add(d, index, covered(source, index.sizes(), "scatter_add"));
  const Kernels& table = kernels(device());
  Tensor out = raw::clone(*this);
  const Tensor reached = corner(autograd::detail::alias(out), index.sizes(), d);
  require(table.scatter_add, "scatter_add", table)(raw::view_of(reached), d, raw::view_of(index), raw::view_of(source),
                                                   IndexUse::scatter_add);
  if (auto* n = track<ScatterAddBackward>(out, *this, source)) {
    n->save(0, index);
    n->dim = d;
  }
  return out;
}

Tensor Tensor::scatter(int64_t given_dim, const Tensor& index, const Tensor& source) const {
  check_index(*this, index, "scatter");
  check_source(*this, source, "scatter");
  if (dim() == 0) return reshape({1}).scatter(given_dim, at_least_1d(index), at_least_1d(source)).reshape({});
  const int d = wrap_dim(given_dim, dim(), "scatter");
  check_same_rank(*this, index, d, "scatter");
  if (source.sizes() != index.sizes()) return scatter(d, index, covered(source, index.sizes(), "scatter"));
  const Kernels& table = kernels(device());
  Tensor out = raw::clone(*this);
  const Tensor reached = corner(autograd::detail::alias(out), index.sizes(), d);
  require(table.scatter, "scatter", table)(raw::view_of(reached), d, raw::view_of(index), raw::view_of(source),
                                           IndexUse::scatter);
  if (auto* n = track<ScatterBackward>(out, *this, source)) {
    n->save(0, index);
    n->dim = d;
  }
  return out;
}

Tensor Tensor::scatter(int64_t dim, const Tensor& index, Scalar value) const {
  check_index(*this, index, "scatter");
  return scatter(dim, index, raw::expand(raw::scalar(value, dtype(), device()), index.sizes()));
}

Tensor Tensor::index_select(int64_t given_dim, const Tensor& given_index) const {
  const Tensor index = slice_index(*this, given_index, "index_select");
  if (dim() == 0) return reshape({1}).index_select(given_dim, index).reshape({});
  const int d = wrap_dim(given_dim, dim(), "index_select");
  const Kernels& table = kernels(device());
  Dims out_sizes = sizes();
  out_sizes[d] = index.numel();
  Tensor out = raw::empty(out_sizes, dtype(), device());
  require(table.index_select, "index_select", table)(raw::view_of(out), raw::view_of(*this), d, raw::view_of(index),
                                                     IndexUse::index_select);
  if (auto* n = track<IndexSelectBackward>(out, *this)) {
    n->save(0, index);
    n->sizes = sizes();
    n->dim = d;
  }
  return out;
}

Tensor Tensor::index_add(int64_t given_dim, const Tensor& given_index, const Tensor& source) const {
  const Tensor index = slice_index(*this, given_index, "index_add");
  check_source(*this, source, "index_add");
  if (const DType wide = computed_in(dtype()); wide != dtype()) {  // (as above)
    return to(wide).index_add(given_dim, given_index, source.to(wide)).to(dtype());
  }
  if (dim() == 0) return reshape({1}).index_add(given_dim, index, at_least_1d(source)).reshape({});
  const int d = wrap_dim(given_dim, dim(), "index_add");
  Dims expected = sizes();
  expected[d] = index.numel();
  TENDRIL_CHECK_AS(ShapeError, source.sizes() == expected, "index_add: the source has shape ", source.sizes(),
                   ", expected ", expected);
  const Kernels& table = kernels(device());
  Tensor out = raw::clone(*this);
  require(table.index_add, "index_add", table)(raw::view_of(out), d, raw::view_of(index), raw::view_of(source),
                                               IndexUse::index_add);
  if (auto* n = track<IndexAddBackward>(out, *this, source)) {
    n->save(0, index);
    n->dim = d;
  }
  return out;
}

}  // namespace tendril
