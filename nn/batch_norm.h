#pragma once

#include <cstdint>
#include <string>

#include "tendril/nn/module.h"
#include "tendril/tensor/export.h"
#include "tendril/tensor/tensor.h"

TENDRIL_API_BEGIN

namespace tendril::nn {

struct BatchNormOptions {
  double eps = 1e-5;
  double momentum = 0.1;    ///< of the newest batch in the running statistics
  bool cumulative = false;  ///< running statistics are plain means over all batches instead (PyTorch's momentum=None)
  bool affine = true;       ///< has weight and bias
  bool track_running_stats = true;  ///< without, evaluation uses the batch's statistics too
  DType dtype = kFloat32;
  Device device = default_device();
};

/// What BatchNorm1d and BatchNorm2d share: batch normalisation (autograd/ops/norm.h) of x [batch, channels, ...], by
/// the batch's statistics in training, by the running ones in evaluation. Parameters and buffers are PyTorch's, except
/// that running statistics beside half types are float32, also after `to(kBFloat16)`: in them a mean would stand still
/// as soon as its changes are below half a unit in the last place.
///
/// Thread-safety: `forward` in training changes the running statistics, so it needs the caller's own ordering.
class BatchNorm : public Module {
 public:
  /// Mean 0, variance 1, nothing counted.
  void reset_running_stats();
  /// What is added to the variance.
  double eps() const noexcept { return options_.eps; }
  std::string extra_repr() const override;

  Tensor weight, bias;               ///< [channels]; undefined unless affine
  Tensor running_mean, running_var;  ///< [channels]; undefined unless tracked; of half types float32
  Tensor num_batches_tracked;        ///< int64, 0-d; likewise

 protected:
  /// `op` is the class's name, for errors. Throws Error unless num_features is positive, eps is 0 or more, and momentum
  /// is in [0, 1].
  BatchNorm(const char* op, int64_t num_features, const BatchNormOptions& options);
  BatchNorm(BatchNorm&& from, const std::type_info& type, Extent object);
  /// x has been checked.
  Tensor normalise(const Tensor& x);
  /// relu(normalise(x) + residual), of which the last may be undefined.
  Tensor normalise_relu(const Tensor& x, const Tensor& residual);
  /// How many channels.
  int64_t num_features() const noexcept { return num_features_; }

 private:
  template <class Normalise>
  Tensor normalise_by(const Normalise& call);

  int64_t num_features_;
  BatchNormOptions options_;
};

/// Of features [batch, num_features], or of sequences [batch, num_features, length].
class BatchNorm1d : public Movable<BatchNorm1d, BatchNorm> {
 public:
  /// Throws as BatchNorm says.
  explicit BatchNorm1d(int64_t num_features, const BatchNormOptions& options = {})
      : Movable("BatchNorm1d", num_features, options) {}

  /// ShapeError unless x is [batch, num_features] or [batch, num_features, length].
  Tensor forward(const Tensor& x);
  Tensor operator()(const Tensor& x) { return call(*this, x); }
};

/// Of images.
class BatchNorm2d : public Movable<BatchNorm2d, BatchNorm> {
 public:
  /// Throws as BatchNorm says.
  explicit BatchNorm2d(int64_t num_features, const BatchNormOptions& options = {})
      : Movable("BatchNorm2d", num_features, options) {}

  /// ShapeError unless x is [batch, num_features, height, width].
  Tensor forward(const Tensor& x);
  Tensor operator()(const Tensor& x) { return call(*this, x); }
  /// relu(forward(x) + residual), as one operation (autograd/ops/norm.h); the residual is like x, or undefined.
  Tensor forward_relu(const Tensor& x, const Tensor& residual = {});
};

}  // namespace tendril::nn

TENDRIL_API_END
