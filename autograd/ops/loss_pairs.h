#pragma once

#include "tendril/autograd/ops/loss.h"
#include "tendril/tensor/export.h"
#include "tendril/tensor/tensor.h"

TENDRIL_API_BEGIN

/// Losses of predictions beside targets of the same shape, with PyTorch's definitions and defaults. Both are of
/// floating dtypes, which promote; losses of the half types are computed in float32. All are twice differentiable in
/// the prediction, and in the target where PyTorch's are. Throw ShapeError unless shapes are equal (PyTorch broadcasts
/// some and warns, as it is nearly always a mistake), DTypeError for integers, Error for devices that differ.
namespace tendril {

/// Of binary_cross_entropy.
struct BinaryCrossEntropyOptions {
  Tensor weight = {};  ///< of each element, broadcasts; undefined: all 1. Not differentiated.
  LossReduction reduction = LossReduction::mean;
};
/// -(target log(x) + (1 - target) log(1 - x)), logarithms not below -100. Error for an x outside of [0, 1], which on a
/// device nobody waits to see: there the result is NaN.
Tensor binary_cross_entropy(const Tensor& x, const Tensor& target, const BinaryCrossEntropyOptions& options = {});

/// Of binary_cross_entropy_with_logits.
struct BinaryCrossEntropyWithLogitsOptions {
  Tensor weight = {};      ///< of each element, broadcasts; undefined: all 1
  Tensor pos_weight = {};  ///< of the summand of target, broadcasts; undefined: all 1. Not differentiated.
  LossReduction reduction = LossReduction::mean;
};
/// binary_cross_entropy of sigmoid(logits), without its loss of precision.
Tensor binary_cross_entropy_with_logits(const Tensor& logits, const Tensor& target,
                                        const BinaryCrossEntropyWithLogitsOptions& options = {});

/// |x - target|
Tensor l1_loss(const Tensor& x, const Tensor& target, LossReduction reduction = LossReduction::mean);

/// Of smooth_l1_loss.
struct SmoothL1LossOptions {
  double beta = 1;  ///< 0 or more; 0: l1_loss
  LossReduction reduction = LossReduction::mean;
};
/// 0.5 d^2 / beta for d = |x - target| below beta, d - 0.5 beta above (Girshick, "Fast R-CNN", 2015).
Tensor smooth_l1_loss(const Tensor& x, const Tensor& target, const SmoothL1LossOptions& options = {});

/// Of huber_loss.
struct HuberLossOptions {
  double delta = 1;  ///< positive
  LossReduction reduction = LossReduction::mean;
};
/// 0.5 d^2 for d = |x - target| up to delta, delta (d - 0.5 delta) above (Huber, 1964).
Tensor huber_loss(const Tensor& x, const Tensor& target, const HuberLossOptions& options = {});

/// Of kl_div.
struct KlDivOptions {
  LossReduction reduction = LossReduction::mean;
  bool batchmean = false;   ///< the sum over the size of dimension 0, in place of `reduction`: the divergence itself
  bool log_target = false;  ///< the target, too, is of logarithms
};
/// target (log(target) - x): x is of logarithms of probabilities. 0 where the target is.
Tensor kl_div(const Tensor& x, const Tensor& target, const KlDivOptions& options = {});

/// x y / (|x| |y|) along `dim`, neither length below eps. Both broadcast.
Tensor cosine_similarity(const Tensor& x, const Tensor& y, int64_t dim = 1, double eps = 1e-8);

/// Of cosine_embedding_loss.
struct CosineEmbeddingLossOptions {
  double margin = 0;  ///< how alike two of different classes may be
  LossReduction reduction = LossReduction::mean;
};
/// For c the cosine of the angle between x1 and x2, [N, D] or [D]: 1 - c where target ([N] or []) is 1, max(c - margin,
/// 0) where it is -1.
Tensor cosine_embedding_loss(const Tensor& x1, const Tensor& x2, const Tensor& target,
                             const CosineEmbeddingLossOptions& options = {});

/// Of triplet_margin_loss.
struct TripletMarginLossOptions {
  double margin = 1;  ///< positive
  double p = 2;       ///< of the norm
  double eps = 1e-6;  ///< added to each difference
  bool swap = false;  ///< takes the distance of positive and negative where that is smaller
  LossReduction reduction = LossReduction::mean;
};
/// max(d(anchor, positive) - d(anchor, negative) + margin, 0), d being the p-norm of the difference along the last
/// dimension.
Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           const TripletMarginLossOptions& options = {});

}  // namespace tendril

TENDRIL_API_END
