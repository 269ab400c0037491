// Reading and adding by index: what tensor/drivers/by_index.h does, recorded.
#include "tendril/autograd/detail/inplace.h"
#include "tendril/autograd/history.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/tensor/creation.h"
#include "tendril/tensor/drivers/by_index.h"
#include "tendril/tensor/raw.h"

namespace tendril {

namespace {

using autograd::NodeOf;
using autograd::track;
using autograd::detail::change;

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

/// The first elements of a source that is larger than the index, or one in the index's shape where one of the two is
/// 0-d. Recorded, so that the others get a gradient of 0.
Tensor covered(Tensor source, const Dims& index, const char* op) {
  if (source.sizes() == index) return source;
  if (source.dim() + index.size() == 1 && source.numel() == numel_of(index)) return source.reshape(index);
  bool fits = source.dim() == index.size();
  for (int d = 0; fits && d < source.dim(); ++d) fits = index[d] <= source.sizes()[d];
  TENDRIL_CHECK_AS(ShapeError, fits, op, ": the source has shape ", source.sizes(), ", the index ", index);
  for (int d = 0; d < source.dim(); ++d) {
    if (source.sizes()[d] != index[d]) source = source.narrow(d, 0, index[d]);
  }
  return source;
}

/// An index of whole slices as scatter has it: for each element of the slices.
Tensor of_elements(const Tensor& index, const Tensor& x, int dim) {
  Dims sizes = x.sizes(), line = Dims::filled(x.dim(), 1);
  if (x.dim() > 0) line[dim] = sizes[dim] = index.numel();
  return raw::expand(raw::view(raw::contiguous(raw::cast(index, kInt64)), line), sizes);
}

Tensor copied(const Tensor& x, int64_t given_dim, const Tensor& index, const Tensor& source, IndexUse use,
              const char* op) {
  detail::check_defined(x, op);
  Tensor out = raw::clone(x);
  drivers::index_copy_(out, given_dim, index, source, use);
  if (auto* n = track<ScatterBackward>(out, x, source)) {
    n->dim = wrap_dim(given_dim, x.dim(), op);
    n->save(0, of_elements(index, x, n->dim));
  }
  return out;
}

/// What is written to x as it was before, also where it is a part of x.
Tensor apart(const Tensor& source, const Tensor& x) {
  return source.defined() && source.storage().get() == x.storage().get() ? raw::clone(source) : source;
}

}  // namespace

Tensor Tensor::gather(int64_t given_dim, const Tensor& index) const {
  Tensor out = drivers::gather(*this, given_dim, index);
  if (auto* n = track<GatherBackward>(out, *this)) {
    n->save(0, index);
    n->sizes = sizes();
    n->dim = wrap_dim(given_dim, dim(), "gather");
  }
  return out;
}

Tensor Tensor::scatter_add(int64_t given_dim, const Tensor& index, const Tensor& given_source) const {
  detail::check_defined(*this, "scatter_add");
  detail::check_defined(index, "scatter_add", "the index");
  detail::check_defined(given_source, "scatter_add", "the source");
  const Tensor source = covered(given_source, index.sizes(), "scatter_add");
  Tensor out = raw::clone(*this);
  drivers::scatter_add_(out, given_dim, index, source);
  if (auto* n = track<ScatterAddBackward>(out, *this, source)) {
    n->save(0, index);
    n->dim = wrap_dim(given_dim, dim(), "scatter_add");
  }
  return out;
}

Tensor Tensor::scatter(int64_t given_dim, const Tensor& index, const Tensor& given_source) const {
  detail::check_defined(*this, "scatter");
  detail::check_defined(index, "scatter", "the index");
  detail::check_defined(given_source, "scatter", "the source");
  const Tensor source = covered(given_source, index.sizes(), "scatter");
  Tensor out = raw::clone(*this);
  drivers::scatter_(out, given_dim, index, source);
  if (auto* n = track<ScatterBackward>(out, *this, source)) {
    n->save(0, index);
    n->dim = wrap_dim(given_dim, dim(), "scatter");
  }
  return out;
}

Tensor Tensor::scatter(int64_t dim, const Tensor& index, Scalar value) const {
  detail::check_defined(*this, "scatter");
  detail::check_defined(index, "scatter", "the index");
  return scatter(dim, index, raw::expand(raw::scalar(value, dtype(), device()), index.sizes()));
}

Tensor Tensor::index_select(int64_t given_dim, const Tensor& index) const {
  Tensor out = drivers::index_select(*this, given_dim, index);
  if (auto* n = track<IndexSelectBackward>(out, *this)) {
    n->save(0, index);
    n->sizes = sizes();
    n->dim = wrap_dim(given_dim, dim(), "index_select");
  }
  return out;
}

Tensor Tensor::index_add(int64_t given_dim, const Tensor& index, const Tensor& source) const {
  detail::check_defined(*this, "index_add");
  Tensor out = raw::clone(*this);
  drivers::index_add_(out, given_dim, index, source);
  if (auto* n = track<IndexAddBackward>(out, *this, source)) {
    n->save(0, index);
    n->dim = wrap_dim(given_dim, dim(), "index_add");
  }
  return out;
}

Tensor Tensor::index_fill(int64_t dim, const Tensor& index, Scalar value) const {
  detail::check_defined(*this, "index_fill");
  return copied(*this, dim, index, raw::scalar(value, dtype(), device()), IndexUse::index_fill, "index_fill");
}

Tensor Tensor::index_copy(int64_t dim, const Tensor& index, const Tensor& source) const {
  return copied(*this, dim, index, source, IndexUse::index_copy, "index_copy");
}

// ---- in place: the kernels write where the tensor is, or, recorded, to a copy that is written over it

const Tensor& Tensor::scatter_(int64_t dim, const Tensor& index, const Tensor& source) const {
  change(
      *this, "scatter_", [&](const Tensor& x) { return x.scatter(dim, index, source); },
      [&] {
        drivers::scatter_(*this, dim, apart(index, *this), apart(covered(source, index.sizes(), "scatter_"), *this));
      },
      index, source);
  return *this;
}

const Tensor& Tensor::scatter_(int64_t dim, const Tensor& index, Scalar value) const {
  detail::check_defined(*this, "scatter_");
  detail::check_defined(index, "scatter_", "the index");
  return scatter_(dim, index, raw::expand(raw::scalar(value, dtype(), device()), index.sizes()));
}

const Tensor& Tensor::scatter_add_(int64_t dim, const Tensor& index, const Tensor& source) const {
  change(
      *this, "scatter_add_", [&](const Tensor& x) { return x.scatter_add(dim, index, source); },
      [&] {
        drivers::scatter_add_(*this, dim, apart(index, *this),
                              apart(covered(source, index.sizes(), "scatter_add_"), *this));
      },
      index, source);
  return *this;
}

const Tensor& Tensor::index_add_(int64_t dim, const Tensor& index, const Tensor& source) const {
  change(
      *this, "index_add_", [&](const Tensor& x) { return x.index_add(dim, index, source); },
      [&] { drivers::index_add_(*this, dim, apart(index, *this), apart(source, *this)); }, index, source);
  return *this;
}

const Tensor& Tensor::index_fill_(int64_t dim, const Tensor& index, Scalar value) const {
  detail::check_defined(*this, "index_fill_");
  const Tensor source = raw::scalar(value, dtype(), device());
  change(
      *this, "index_fill_", [&](const Tensor& x) { return x.index_fill(dim, index, value); },
      [&] { drivers::index_copy_(*this, dim, apart(index, *this), source, IndexUse::index_fill); }, index);
  return *this;
}

const Tensor& Tensor::index_copy_(int64_t dim, const Tensor& index, const Tensor& source) const {
  change(
      *this, "index_copy_", [&](const Tensor& x) { return x.index_copy(dim, index, source); },
      [&] { drivers::index_copy_(*this, dim, apart(index, *this), apart(source, *this)); }, index, source);
  return *this;
}

}  // namespace tendril
