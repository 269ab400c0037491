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
using autograd::detail::change;

struct GatherBackward : NodeOf<GatherBackward, 1, 1> {
  static constexpr const char* kName = "GatherBackward";
  Dims sizes;
  int dim = 0;

  void keep(const Tensor& x, int along, const Tensor& index) {
    save(0, index);
    sizes = x.sizes();
    dim = along;
  }
  void backward(const Tensor& g, std::span<Tensor> dx) {
    dx[0] = raw::zeros(sizes, g.dtype(), g.device()).scatter_add(dim, saved(0), g);
  }
};

struct ScatterAddBackward : NodeOf<ScatterAddBackward, 2, 1> {
  static constexpr const char* kName = "ScatterAddBackward";
  int dim = 0;

  void keep(const Tensor&, int along, const Tensor& index) {
    save(0, index);
    dim = along;
  }
  void backward(const Tensor& g, std::span<Tensor> dx) {
    dx[0] = g;
    if (needs_grad(1)) dx[1] = g.gather(dim, saved(0));
  }
};

/// An index of whole slices as scatter has it: for each element of the slices.
Tensor of_elements(const Tensor& index, const Tensor& x, int dim) {
  Dims sizes = x.sizes(), line = Dims::filled(x.dim(), 1);
  if (x.dim() > 0) line[dim] = sizes[dim] = index.numel();
  return raw::expand(raw::view(raw::contiguous(raw::cast(index, kInt64)), line), sizes);
}

/// `of_slices`: of what is given an index of whole slices.
template <bool of_slices>
struct ScatterBackward : NodeOf<ScatterBackward<of_slices>, 2, 1> {
  static constexpr const char* kName = "ScatterBackward";
  int dim = 0;

  void keep(const Tensor& x, int along, const Tensor& index) {
    this->save(0, of_slices ? of_elements(index, x, along) : index);
    dim = along;
  }
  void backward(const Tensor& g, std::span<Tensor> dx) {
    if (this->needs_grad(0)) dx[0] = g.scatter(dim, this->saved(0), 0);
    if (this->needs_grad(1)) dx[1] = g.gather(dim, this->saved(0));
  }
};

struct IndexSelectBackward : NodeOf<IndexSelectBackward, 1, 1> {
  static constexpr const char* kName = "IndexSelectBackward";
  Dims sizes;
  int dim = 0;

  void keep(const Tensor& x, int along, const Tensor& index) {
    save(0, index);
    sizes = x.sizes();
    dim = along;
  }
  void backward(const Tensor& g, std::span<Tensor> dx) {
    dx[0] = raw::zeros(sizes, g.dtype(), g.device()).index_add(dim, saved(0), g);
  }
};

struct IndexAddBackward : NodeOf<IndexAddBackward, 2, 1> {
  static constexpr const char* kName = "IndexAddBackward";
  int dim = 0;

  void keep(const Tensor&, int along, const Tensor& index) {
    save(0, index);
    dim = along;
  }
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

Tensor copied(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source, IndexUse use, const char* op) {
  const auto write = [use](const Tensor& out, int64_t d, const Tensor& i, const Tensor& from) {
    drivers::index_copy_(out, d, i, from, use);
  };
  return drivers::written<ScatterBackward<true>>(write, op, x, dim, index, source);
}

/// int32 is accepted as an index, as in PyTorch.
Tensor as_int64(const Tensor& index) {
  return index.defined() && index.dtype() == kInt32 ? raw::cast(index, kInt64) : index;
}

/// A number as a 0-d tensor like x.
Tensor like(const Tensor& x, Scalar value, const char* op) {
  detail::check_fits(value, x.dtype(), op);
  return raw::scalar(value, x.dtype(), x.device());
}

/// What is written to x as it was before, also where it is a part of x.
Tensor apart(const Tensor& source, const Tensor& x) {
  return source.defined() && source.storage().get() == x.storage().get() ? raw::clone(source) : source;
}

}  // namespace

Tensor Tensor::gather(int64_t dim, const Tensor& index) const {
  return drivers::gather<GatherBackward>(*this, dim, as_int64(index));
}

Tensor Tensor::scatter_add(int64_t dim, const Tensor& index, const Tensor& source) const {
  detail::check_defined(*this, "scatter_add");
  detail::check_defined(index, "scatter_add", "the index");
  detail::check_defined(source, "scatter_add", "the source");
  return drivers::written<ScatterAddBackward>(drivers::scatter_add_, "scatter_add", *this, dim, as_int64(index),
                                              covered(source, index.sizes(), "scatter_add"));
}

Tensor Tensor::scatter(int64_t dim, const Tensor& index, const Tensor& source) const {
  detail::check_defined(*this, "scatter");
  detail::check_defined(index, "scatter", "the index");
  detail::check_defined(source, "scatter", "the source");
  return drivers::written<ScatterBackward<false>>(drivers::scatter_, "scatter", *this, dim, as_int64(index),
                                                  covered(source, index.sizes(), "scatter"));
}

Tensor Tensor::scatter(int64_t dim, const Tensor& index, Scalar value) const {
  detail::check_defined(*this, "scatter");
  detail::check_defined(index, "scatter", "the index");
  return scatter(dim, index, raw::expand(like(*this, value, "scatter"), index.sizes()));
}

Tensor Tensor::index_select(int64_t dim, const Tensor& index) const {
  return drivers::index_select<IndexSelectBackward>(*this, dim, index);
}

Tensor Tensor::index_add(int64_t dim, const Tensor& index, const Tensor& source) const {
  return drivers::written<IndexAddBackward>(drivers::index_add_, "index_add", *this, dim, index, source);
}

Tensor Tensor::index_fill(int64_t dim, const Tensor& index, Scalar value) const {
  detail::check_defined(*this, "index_fill");
  return copied(*this, dim, index, like(*this, value, "index_fill"), IndexUse::index_fill, "index_fill");
}

Tensor Tensor::index_copy(int64_t dim, const Tensor& index, const Tensor& source) const {
  return copied(*this, dim, index, source, IndexUse::index_copy, "index_copy");
}

// ---- in place: the kernels write where the tensor is, or, recorded, to a copy that is written over it

const Tensor& Tensor::scatter_(int64_t dim, const Tensor& index, const Tensor& source) const {
  change(
      *this, "scatter_", [&](const Tensor& x) { return x.scatter(dim, index, source); },
      [&] {
        drivers::scatter_(*this, dim, apart(as_int64(index), *this),
                          apart(covered(source, index.sizes(), "scatter_"), *this));
      },
      index, source);
  return *this;
}

const Tensor& Tensor::scatter_(int64_t dim, const Tensor& index, Scalar value) const {
  detail::check_defined(*this, "scatter_");
  detail::check_defined(index, "scatter_", "the index");
  return scatter_(dim, index, raw::expand(like(*this, value, "scatter_"), index.sizes()));
}

const Tensor& Tensor::scatter_add_(int64_t dim, const Tensor& index, const Tensor& source) const {
  change(
      *this, "scatter_add_", [&](const Tensor& x) { return x.scatter_add(dim, index, source); },
      [&] {
        drivers::scatter_add_(*this, dim, apart(as_int64(index), *this),
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
  const Tensor source = like(*this, value, "index_fill_");
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
