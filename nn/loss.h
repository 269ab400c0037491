#pragma once

#include <string>

#include "tendril/autograd/ops/ctc_loss.h"
#include "tendril/autograd/ops/loss.h"
#include "tendril/autograd/ops/loss_pairs.h"
#include "tendril/nn/module.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

/// Losses as modules, for use where a module is asked for. Elsewhere the functions read shorter (autograd/ops/loss.h
/// and loss_pairs.h, which say what each is): `cross_entropy(logits, target)`.
namespace tendril::nn {

std::string describe_reduction(LossReduction reduction);  ///< "reduction=mean"

/// cross_entropy as a module.
class CrossEntropyLoss : public Movable<CrossEntropyLoss> {
 public:
  explicit CrossEntropyLoss(const CrossEntropyOptions& options = {});
  Tensor forward(const Tensor& logits, const Tensor& target) const { return cross_entropy(logits, target, options_); }
  Tensor operator()(const Tensor& logits, const Tensor& target) const { return call(*this, logits, target); }
  std::string extra_repr() const override;

 private:
  CrossEntropyOptions options_;  // its weight is a buffer
};

/// nll_loss as a module.
class NLLLoss : public Movable<NLLLoss> {
 public:
  explicit NLLLoss(const NllLossOptions& options = {});
  Tensor forward(const Tensor& log_probs, const Tensor& target) const { return nll_loss(log_probs, target, options_); }
  Tensor operator()(const Tensor& log_probs, const Tensor& target) const { return call(*this, log_probs, target); }
  std::string extra_repr() const override;

 private:
  NllLossOptions options_;
};

/// mse_loss as a module.
class MSELoss : public Movable<MSELoss> {
 public:
  explicit MSELoss(LossReduction reduction = LossReduction::mean) : reduction_(reduction) {}
  Tensor forward(const Tensor& x, const Tensor& y) const { return mse_loss(x, y, reduction_); }
  Tensor operator()(const Tensor& x, const Tensor& y) const { return call(*this, x, y); }
  std::string extra_repr() const override;

 private:
  LossReduction reduction_;
};

/// binary_cross_entropy as a module.
class BCELoss : public Movable<BCELoss> {
 public:
  explicit BCELoss(const BinaryCrossEntropyOptions& options = {});
  Tensor forward(const Tensor& x, const Tensor& y) const { return binary_cross_entropy(x, y, options_); }
  Tensor operator()(const Tensor& x, const Tensor& y) const { return call(*this, x, y); }
  std::string extra_repr() const override;

 private:
  BinaryCrossEntropyOptions options_;  // its weight is a buffer
};

/// binary_cross_entropy_with_logits as a module.
class BCEWithLogitsLoss : public Movable<BCEWithLogitsLoss> {
 public:
  explicit BCEWithLogitsLoss(const BinaryCrossEntropyWithLogitsOptions& options = {});
  Tensor forward(const Tensor& x, const Tensor& y) const { return binary_cross_entropy_with_logits(x, y, options_); }
  Tensor operator()(const Tensor& x, const Tensor& y) const { return call(*this, x, y); }
  std::string extra_repr() const override;

 private:
  BinaryCrossEntropyWithLogitsOptions options_;  // its weights are buffers
};

/// l1_loss as a module.
class L1Loss : public Movable<L1Loss> {
 public:
  explicit L1Loss(LossReduction reduction = LossReduction::mean) : reduction_(reduction) {}
  Tensor forward(const Tensor& x, const Tensor& y) const { return l1_loss(x, y, reduction_); }
  Tensor operator()(const Tensor& x, const Tensor& y) const { return call(*this, x, y); }
  std::string extra_repr() const override;

 private:
  LossReduction reduction_;
};

/// A loss of two tensors and options as a module.
template <class Class, class Options, Tensor (*function)(const Tensor&, const Tensor&, const Options&)>
class PairLoss : public Movable<Class> {
 public:
  explicit PairLoss(const Options& options = {}) : options_(options) {}
  Tensor forward(const Tensor& x, const Tensor& y) const { return function(x, y, options_); }
  Tensor operator()(const Tensor& x, const Tensor& y) const { return call(*this, x, y); }
  std::string extra_repr() const override { return describe_reduction(options_.reduction); }

 private:
  Options options_;
};

/// smooth_l1_loss (autograd/ops/loss.h).
struct SmoothL1Loss : PairLoss<SmoothL1Loss, SmoothL1LossOptions, smooth_l1_loss> {
  using PairLoss::PairLoss;
};
/// huber_loss (autograd/ops/loss.h).
struct HuberLoss : PairLoss<HuberLoss, HuberLossOptions, huber_loss> {
  using PairLoss::PairLoss;
};
/// kl_div (autograd/ops/loss.h).
struct KLDivLoss : PairLoss<KLDivLoss, KlDivOptions, kl_div> {
  using PairLoss::PairLoss;
};

/// A loss of three tensors and options as a module.
template <class Class, class Options, Tensor (*function)(const Tensor&, const Tensor&, const Tensor&, const Options&)>
class TripleLoss : public Movable<Class> {
 public:
  explicit TripleLoss(const Options& options = {}) : options_(options) {}
  Tensor forward(const Tensor& a, const Tensor& b, const Tensor& c) const { return function(a, b, c, options_); }
  Tensor operator()(const Tensor& a, const Tensor& b, const Tensor& c) const { return call(*this, a, b, c); }
  std::string extra_repr() const override { return describe_reduction(options_.reduction); }

 private:
  Options options_;
};

/// cosine_embedding_loss (autograd/ops/loss.h).
struct CosineEmbeddingLoss : TripleLoss<CosineEmbeddingLoss, CosineEmbeddingLossOptions, cosine_embedding_loss> {
  using TripleLoss::TripleLoss;
};
/// triplet_margin_loss (autograd/ops/loss.h).
struct TripletMarginLoss : TripleLoss<TripletMarginLoss, TripletMarginLossOptions, triplet_margin_loss> {
  using TripleLoss::TripleLoss;
};

/// ctc_loss (autograd/ops/ctc_loss.h).
class CTCLoss : public Movable<CTCLoss> {
 public:
  explicit CTCLoss(const CtcLossOptions& options = {}) : options_(options) {}
  /// Lengths are a tensor or a std::vector<int64_t>.
  template <class Lengths>
  Tensor forward(const Tensor& log_probs, const Tensor& targets, const Lengths& input_lengths,
                 const Lengths& target_lengths) const {
    return ctc_loss(log_probs, targets, input_lengths, target_lengths, options_);
  }
  template <class Lengths>
  Tensor operator()(const Tensor& log_probs, const Tensor& targets, const Lengths& input_lengths,
                    const Lengths& target_lengths) const {
    return call(*this, log_probs, targets, input_lengths, target_lengths);
  }
  std::string extra_repr() const override;

 private:
  CtcLossOptions options_;
};

}  // namespace tendril::nn

TENDRIL_API_END
