#pragma once

#include <string>

#include "tendril/autograd/ops/loss.h"
#include "tendril/nn/module.h"

/// Losses as modules, for use where a module is asked for. Elsewhere the functions read shorter (autograd/ops/loss.h,
/// which says what each is): `cross_entropy(logits, target)`.
namespace tendril::nn {

class CrossEntropyLoss : public Movable<CrossEntropyLoss> {
 public:
  explicit CrossEntropyLoss(const CrossEntropyOptions& options = {});
  Tensor forward(const Tensor& logits, const Tensor& target) const { return cross_entropy(logits, target, options_); }
  Tensor operator()(const Tensor& logits, const Tensor& target) const { return forward(logits, target); }
  std::string extra_repr() const override;

 private:
  CrossEntropyOptions options_;  // its weight is a buffer
};

class NLLLoss : public Movable<NLLLoss> {
 public:
  explicit NLLLoss(const NllLossOptions& options = {});
  Tensor forward(const Tensor& log_probs, const Tensor& target) const { return nll_loss(log_probs, target, options_); }
  Tensor operator()(const Tensor& log_probs, const Tensor& target) const { return forward(log_probs, target); }
  std::string extra_repr() const override;

 private:
  NllLossOptions options_;
};

class MSELoss : public Movable<MSELoss> {
 public:
  explicit MSELoss(LossReduction reduction = LossReduction::mean) : reduction_(reduction) {}
  Tensor forward(const Tensor& x, const Tensor& y) const { return mse_loss(x, y, reduction_); }
  Tensor operator()(const Tensor& x, const Tensor& y) const { return forward(x, y); }
  std::string extra_repr() const override;

 private:
  LossReduction reduction_;
};

}  // namespace tendril::nn
