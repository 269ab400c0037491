#pragma once

#include <cstdint>

#include "tendril/tensor/export.h"
#include "tendril/tensor/tensor.h"

TENDRIL_API_BEGIN

/// Losses, with PyTorch's definitions. Classes are dimension 1 of the scores [N, C, d1, ...], or the only one of [C];
/// targets are int64 classes [N, d1, ...] or [].
namespace tendril {

/// What becomes of the elements' losses.
enum class LossReduction : uint8_t {
  none,  ///< a loss for each target, in the targets' shape
  mean,  ///< weighted by the classes' weights; NaN (with gradient 0) where nothing counts
  sum,   ///< of all losses
};

/// Of nll_loss.
struct NllLossOptions {
  Tensor weight = {};  ///< of each class, [C], in the scores' dtype; undefined: all 1. Not differentiated.
  LossReduction reduction = LossReduction::mean;
  int64_t ignore_index = -100;  ///< targets of this value count for nothing; need not be a class
};

/// Of cross_entropy.
struct CrossEntropyOptions {
  Tensor weight = {};  ///< of each class, [C]; undefined: all 1
  LossReduction reduction = LossReduction::mean;
  int64_t ignore_index = -100;  ///< targets of this value count for nothing
  /// e in [0, 1]: the target distribution is 1 - e at the class, plus e / C at each class
  /// (Szegedy et al., "Rethinking the Inception Architecture", 2016).
  double label_smoothing = 0;
};

/// -weight[t] * log_probs[t] for each target t.
/// Throws ShapeError, DTypeError; IndexError for a target that is neither a class nor `ignore_index`: on a device by
/// the kernel that looks it up, when somebody next waits for the device.
Tensor nll_loss(const Tensor& log_probs, const Tensor& target, const NllLossOptions& options = {});

/// nll_loss of log_softmax(logits). A target of the logits' shape and dtype is a distribution over the classes for each
/// place: then it is -sum(weight * target * log_softmax(logits)) over the classes, whose mean is over the places, and
/// differentiable in the target too. Throws as nll_loss does, and Error for a smoothing outside of [0, 1], or an
/// ignore_index of 0 or more beside distributions.
Tensor cross_entropy(const Tensor& logits, const Tensor& target, const CrossEntropyOptions& options = {});

/// (x - y)^2. ShapeError unless both have one shape: PyTorch broadcasts and warns, as it is nearly always a mistake.
Tensor mse_loss(const Tensor& x, const Tensor& y, LossReduction reduction = LossReduction::mean);

}  // namespace tendril

TENDRIL_API_END
