#pragma once

#include <cstdint>
#include <string>

#include "tendril/nn/module.h"
#include "tendril/tensor/export.h"
#include "tendril/tensor/tensor.h"

TENDRIL_API_BEGIN

namespace tendril::nn {

/// x with dimensions start_dim..end_dim merged into one; by default all but the batch's.
struct Flatten : Movable<Flatten> {
  explicit Flatten(int64_t start = 1, int64_t end = -1) : start_dim(start), end_dim(end) {}
  Tensor forward(const Tensor& x) const { return x.flatten(start_dim, end_dim); }
  Tensor operator()(const Tensor& x) const { return call(*this, x); }
  std::string extra_repr() const override {
    return "start_dim=" + std::to_string(start_dim) + ", end_dim=" + std::to_string(end_dim);
  }

  const int64_t start_dim, end_dim;  ///< the first and the last dimension that become one
};

/// The reverse: dimension `dim` as several, of these sizes, of which one may be -1.
struct Unflatten : Movable<Unflatten> {
  Unflatten(int64_t along, const Dims& sizes) : dim(along), unflattened_size(sizes) {}
  Tensor forward(const Tensor& x) const { return x.unflatten(dim, unflattened_size); }
  Tensor operator()(const Tensor& x) const { return call(*this, x); }
  std::string extra_repr() const override {
    std::string sizes;
    for (int64_t size : unflattened_size) sizes += (sizes.empty() ? "" : ", ") + std::to_string(size);
    return "dim=" + std::to_string(dim) + ", unflattened_size=(" + sizes + ")";
  }

  const int64_t dim;            ///< that is made several
  const Dims unflattened_size;  ///< of those that it becomes; one may be -1
};

/// x itself: what stands in a model's place for a layer that is not there.
struct Identity : Movable<Identity> {
  Tensor forward(const Tensor& x) const { return x; }
  Tensor operator()(const Tensor& x) const { return call(*this, x); }
};

}  // namespace tendril::nn

TENDRIL_API_END
