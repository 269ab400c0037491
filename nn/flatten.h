#pragma once

#include <cstdint>
#include <string>

#include "tendril/nn/module.h"
#include "tendril/tensor/tensor.h"

namespace tendril::nn {

/// x with dimensions start_dim..end_dim merged into one; by default all but the batch's.
struct Flatten : Movable<Flatten> {
  explicit Flatten(int64_t start = 1, int64_t end = -1) : start_dim(start), end_dim(end) {}
  Tensor forward(const Tensor& x) const { return x.flatten(start_dim, end_dim); }
  Tensor operator()(const Tensor& x) const { return call(*this, x); }
  std::string extra_repr() const override {
    return "start_dim=" + std::to_string(start_dim) + ", end_dim=" + std::to_string(end_dim);
  }

  const int64_t start_dim, end_dim;
};

}  // namespace tendril::nn
