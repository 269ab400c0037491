#pragma once

#include <string>

#include "tendril/autograd/ops/pool.h"
#include "tendril/nn/module.h"

/// Pooling (autograd/ops/pool.h) as modules.
namespace tendril::nn {

struct MaxPool2d : Movable<MaxPool2d> {
  explicit MaxPool2d(Size2 kernel, const MaxPoolOptions& how = {}) : kernel_size(kernel), options(how) {}
  Tensor forward(const Tensor& x) const { return max_pool2d(x, kernel_size, options); }
  Tensor operator()(const Tensor& x) const { return forward(x); }
  std::string extra_repr() const override;

  const Size2 kernel_size;
  const MaxPoolOptions options;
};

struct AvgPool2d : Movable<AvgPool2d> {
  explicit AvgPool2d(Size2 kernel, const AvgPoolOptions& how = {}) : kernel_size(kernel), options(how) {}
  Tensor forward(const Tensor& x) const { return avg_pool2d(x, kernel_size, options); }
  Tensor operator()(const Tensor& x) const { return forward(x); }
  std::string extra_repr() const override;

  const Size2 kernel_size;
  const AvgPoolOptions options;
};

struct AdaptiveAvgPool2d : Movable<AdaptiveAvgPool2d> {
  explicit AdaptiveAvgPool2d(Size2 output) : output_size(output) {}
  Tensor forward(const Tensor& x) const { return adaptive_avg_pool2d(x, output_size); }
  Tensor operator()(const Tensor& x) const { return forward(x); }
  std::string extra_repr() const override;

  const Size2 output_size;
};

}  // namespace tendril::nn
