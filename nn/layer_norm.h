#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tendril/nn/module.h"
#include "tendril/tensor/export.h"
#include "tendril/tensor/tensor.h"

TENDRIL_API_BEGIN

/// Normalisation that does not look at the rest of the batch (autograd/ops/layer_norm.h), with PyTorch's parameters:
/// weight starts as ones, bias as zeros. Constructors throw Error for sizes that are not positive and a negative eps.
namespace tendril::nn {

struct LayerNormOptions {
  double eps = 1e-5;
  bool elementwise_affine = true;  ///< has a weight
  bool bias = true;                ///< and a bias beside it
  DType dtype = kFloat32;
  Device device = default_device();
};

/// Over the last dimensions of x, those of `normalized_shape`.
class LayerNorm : public Movable<LayerNorm> {
 public:
  explicit LayerNorm(const Dims& normalized_shape, const LayerNormOptions& options = {});
  explicit LayerNorm(int64_t features, const LayerNormOptions& options = {}) : LayerNorm(Dims{features}, options) {}

  /// ShapeError unless x is [..., normalized_shape].
  Tensor forward(const Tensor& x) const;
  Tensor operator()(const Tensor& x) const { return call(*this, x); }
  std::string extra_repr() const override;

  Tensor weight, bias;  ///< normalized_shape; undefined without

 private:
  Dims shape_;
  double eps_;
};

struct RMSNormOptions {
  std::optional<double> eps{};     ///< default: the dtype's distance from 1 to the next number
  bool elementwise_affine = true;  ///< has a weight
  DType dtype = kFloat32;
  Device device = default_device();
};

/// By the root mean square over the last dimensions.
class RMSNorm : public Movable<RMSNorm> {
 public:
  explicit RMSNorm(const Dims& normalized_shape, const RMSNormOptions& options = {});
  explicit RMSNorm(int64_t features, const RMSNormOptions& options = {}) : RMSNorm(Dims{features}, options) {}

  Tensor forward(const Tensor& x) const;
  Tensor operator()(const Tensor& x) const { return call(*this, x); }
  std::string extra_repr() const override;

  Tensor weight;  ///< normalized_shape; undefined without

 private:
  Dims shape_;
  std::optional<double> eps_;
};

struct GroupNormOptions {
  double eps = 1e-5;
  bool affine = true;  ///< has weight and bias
  DType dtype = kFloat32;
  Device device = default_device();
};

/// Over groups of channels of x [batch, channels, ...].
class GroupNorm : public Movable<GroupNorm> {
 public:
  /// Throws Error unless num_groups divides num_channels.
  GroupNorm(int64_t num_groups, int64_t num_channels, const GroupNormOptions& options = {});

  Tensor forward(const Tensor& x) const;
  Tensor operator()(const Tensor& x) const { return call(*this, x); }
  std::string extra_repr() const override;

  Tensor weight, bias;  ///< [channels]; undefined without

 private:
  int64_t groups_, channels_;
  double eps_;
};

}  // namespace tendril::nn

TENDRIL_API_END
