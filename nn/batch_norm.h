#pragma once

#include <cstdint>
#include <string>

#include "tendril/nn/module.h"
#include "tendril/tensor/tensor.h"

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

/// Batch normalisation (autograd/ops/norm.h) of images [batch, channels, height, width]: by the batch's statistics in
/// training, by the running ones in evaluation. Parameters and buffers are PyTorch's.
///
/// Thread-safety: `forward` in training changes the running statistics, so it needs the caller's own ordering.
class BatchNorm2d : public Module {
 public:
  /// Throws Error unless num_features is positive, eps is 0 or more, and momentum is in [0, 1].
  explicit BatchNorm2d(int64_t num_features, const BatchNormOptions& options = {});

  /// ShapeError unless x is [batch, num_features, height, width].
  Tensor forward(const Tensor& x);
  Tensor operator()(const Tensor& x) { return forward(x); }

  void reset_running_stats();
  std::string extra_repr() const override;

  Tensor weight, bias;               ///< [channels]; undefined unless affine
  Tensor running_mean, running_var;  ///< [channels]; undefined unless tracked
  Tensor num_batches_tracked;        ///< int64, 0-d; likewise

 private:
  int64_t num_features_;
  BatchNormOptions options_;
};

}  // namespace tendril::nn
