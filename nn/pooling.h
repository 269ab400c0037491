#pragma once

#include <string>

#include "tendril/autograd/ops/pool.h"
#include "tendril/nn/module.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

/// Pooling (autograd/ops/pool.h) as modules.
namespace tendril::nn {

/// max_pool2d as a module.
struct MaxPool2d : Movable<MaxPool2d> {
  explicit MaxPool2d(Size2 kernel, const MaxPoolOptions& how = {}) : kernel_size(kernel), options(how) {}
  Tensor forward(const Tensor& x) const { return max_pool2d(x, kernel_size, options); }
  Tensor operator()(const Tensor& x) const { return call(*this, x); }
  std::string extra_repr() const override;

  const Size2 kernel_size;
  const MaxPoolOptions options;
};

/// avg_pool2d as a module.
struct AvgPool2d : Movable<AvgPool2d> {
  explicit AvgPool2d(Size2 kernel, const AvgPoolOptions& how = {}) : kernel_size(kernel), options(how) {}
  Tensor forward(const Tensor& x) const { return avg_pool2d(x, kernel_size, options); }
  Tensor operator()(const Tensor& x) const { return call(*this, x); }
  std::string extra_repr() const override;

  const Size2 kernel_size;
  const AvgPoolOptions options;
};

/// adaptive_avg_pool2d as a module.
struct AdaptiveAvgPool2d : Movable<AdaptiveAvgPool2d> {
  explicit AdaptiveAvgPool2d(Size2 output) : output_size(output) {}
  Tensor forward(const Tensor& x) const { return adaptive_avg_pool2d(x, output_size); }
  Tensor operator()(const Tensor& x) const { return call(*this, x); }
  std::string extra_repr() const override;

  const Size2 output_size;
};

/// adaptive_max_pool2d as a module.
struct AdaptiveMaxPool2d : Movable<AdaptiveMaxPool2d> {
  explicit AdaptiveMaxPool2d(Size2 output) : output_size(output) {}
  Tensor forward(const Tensor& x) const { return adaptive_max_pool2d(x, output_size); }
  Tensor operator()(const Tensor& x) const { return call(*this, x); }
  std::string extra_repr() const override;

  const Size2 output_size;
};

/// max_pool1d as a module.
struct MaxPool1d : Movable<MaxPool1d> {
  explicit MaxPool1d(int64_t kernel, const MaxPool1dOptions& how = {}) : kernel_size(kernel), options(how) {}
  Tensor forward(const Tensor& x) const { return max_pool1d(x, kernel_size, options); }
  Tensor operator()(const Tensor& x) const { return call(*this, x); }
  std::string extra_repr() const override;

  const int64_t kernel_size;
  const MaxPool1dOptions options;
};

/// avg_pool1d as a module.
struct AvgPool1d : Movable<AvgPool1d> {
  explicit AvgPool1d(int64_t kernel, const AvgPool1dOptions& how = {}) : kernel_size(kernel), options(how) {}
  Tensor forward(const Tensor& x) const { return avg_pool1d(x, kernel_size, options); }
  Tensor operator()(const Tensor& x) const { return call(*this, x); }
  std::string extra_repr() const override;

  const int64_t kernel_size;
  const AvgPool1dOptions options;
};

/// adaptive_avg_pool1d as a module.
struct AdaptiveAvgPool1d : Movable<AdaptiveAvgPool1d> {
  explicit AdaptiveAvgPool1d(int64_t output) : output_size(output) {}
  Tensor forward(const Tensor& x) const { return adaptive_avg_pool1d(x, output_size); }
  Tensor operator()(const Tensor& x) const { return call(*this, x); }
  std::string extra_repr() const override;

  const int64_t output_size;
};

/// adaptive_max_pool1d as a module.
struct AdaptiveMaxPool1d : Movable<AdaptiveMaxPool1d> {
  explicit AdaptiveMaxPool1d(int64_t output) : output_size(output) {}
  Tensor forward(const Tensor& x) const { return adaptive_max_pool1d(x, output_size); }
  Tensor operator()(const Tensor& x) const { return call(*this, x); }
  std::string extra_repr() const override;

  const int64_t output_size;
};

}  // namespace tendril::nn

TENDRIL_API_END
