#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tendril/nn/linear.h"
#include "tendril/nn/sequential.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::nn {

/// Of AdaptiveLogSoftmaxWithLoss.
struct AdaptiveLogSoftmaxOptions {
  double div_value = 4;    ///< each cluster's inner size is the one before it by this
  bool head_bias = false;  ///< of the frequent classes and the clusters; the clusters' own layers have none
  DType dtype = kFloat32;
  Device device = default_device();
  Generator& generator = default_generator();  ///< for the initial values
};

/// What AdaptiveLogSoftmaxWithLoss gives.
struct AdaptiveLogSoftmaxResult {
  Tensor output;  ///< log probability of each row's target, [N], or [] of a single row
  Tensor loss;    ///< -output's mean, []

  template <class Self, class F>
  static void for_each_tensor(Self& self, const F& f) {
    detail::for_each_tensor(self.output, f);
    detail::for_each_tensor(self.loss, f);
  }
};

/// A softmax over many classes of which few are frequent, as PyTorch's, with its parameters' names (Grave et al.,
/// "Efficient softmax approximation for GPUs", 2017). Classes are sorted by frequency: those below cutoffs[0] and one
/// place for each cluster are the head's; cluster i has those from cutoffs[i] to the next cutoff or n_classes. A row
/// costs the head's classes and those of its target's cluster.
///
///     nn::AdaptiveLogSoftmaxWithLoss criterion(256, 100'000, {2'000, 20'000});
///     const auto [output, loss] = criterion(hidden, words);
class AdaptiveLogSoftmaxWithLoss : public Movable<AdaptiveLogSoftmaxWithLoss> {
 public:
  /// Throws Error unless counts are positive, cutoffs grow from 1 to n_classes - 1, at least one, and div_value is
  /// positive and leaves every cluster an inner size of one or more.
  AdaptiveLogSoftmaxWithLoss(int64_t in_features, int64_t n_classes, const std::vector<int64_t>& cutoffs,
                             const AdaptiveLogSoftmaxOptions& options = {});

  /// x is [N, in_features] and target [N], or [in_features] and []; target is int64 or int32. Waits for a device.
  /// ShapeError, DTypeError; IndexError for a target that is no class.
  AdaptiveLogSoftmaxResult forward(const Tensor& x, const Tensor& target) const;
  AdaptiveLogSoftmaxResult operator()(const Tensor& x, const Tensor& target) const { return call(*this, x, target); }

  /// Log probabilities of all classes, [N, n_classes]; x is [N, in_features]. ShapeError, DTypeError.
  Tensor log_prob(const Tensor& x) const;
  /// The most probable class of each row, int64, [N]; x is [N, in_features]. Not differentiable. ShapeError,
  /// DTypeError.
  Tensor predict(const Tensor& x) const;

  /// Draws the initial values anew.
  void reset_parameters(Generator& generator = default_generator());
  std::string extra_repr() const override;

  Linear head;      ///< to cutoffs[0] classes and the clusters
  ModuleList tail;  ///< of each cluster a Sequential of two Linears: to the inner size, to its classes

 private:
  AdaptiveLogSoftmaxWithLoss(int64_t in_features, std::vector<int64_t> cutoffs,
                             const AdaptiveLogSoftmaxOptions& options);

  int64_t in_features_;
  std::vector<int64_t> cutoffs_;  // and n_classes
};

}  // namespace tendril::nn

TENDRIL_API_END
