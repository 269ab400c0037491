#pragma once

#include <cstdint>
#include <vector>

#include "tendril/nn/optim/optimizer.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::optim {

struct AdamOptions {
  double lr = 1e-3;
  double beta1 = 0.9;           ///< decay rate of the running average of gradients, in [0, 1)
  double beta2 = 0.999;         ///< decay rate of the running average of their squares, in [0, 1)
  double eps = 1e-8;            ///< added to the denominator
  double weight_decay = 0;      ///< L2: adds weight_decay * parameter to the gradient
  bool amsgrad = false;         ///< divides by the largest average of squares so far
  bool maximize = false;        ///< steps up the gradient
  bool master_weights = false;  ///< float32 copies of float16 and bfloat16 parameters (Optimizer)

  void validate(const char* op) const;  ///< throws Error

  template <class Self, class Visit>
  static void for_each_field(Self& self, const Visit& visit) {
    visit("lr", self.lr);
    visit("betas.0", self.beta1);
    visit("betas.1", self.beta2);
    visit("eps", self.eps);
    visit("weight_decay", self.weight_decay);
    visit("amsgrad", self.amsgrad);
    visit("maximize", self.maximize);
  }
  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    for_each_field(*this, [&](const char*, auto& field) { archive& field; });
    archive& master_weights;
  }
};

struct AdamWOptions {
  double lr = 1e-3;
  double beta1 = 0.9;    ///< as AdamOptions'
  double beta2 = 0.999;  ///< as AdamOptions'
  double eps = 1e-8;
  double weight_decay = 1e-2;   ///< of the parameter itself: multiplies it by 1 - lr * weight_decay
  bool amsgrad = false;         ///< as AdamOptions'
  bool maximize = false;        ///< steps up the gradient
  bool master_weights = false;  ///< float32 copies of float16 and bfloat16 parameters (Optimizer)

  void validate(const char* op) const;  ///< throws Error

  template <class Self, class Visit>
  static void for_each_field(Self& self, const Visit& visit) {
    AdamOptions::for_each_field(self, visit);
  }
  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    for_each_field(*this, [&](const char*, auto& field) { archive& field; });
    archive& master_weights;
  }
};

/// What it remembers of a parameter.
struct AdamState {
  int64_t step = 0;       ///< steps taken by this parameter
  Tensor exp_avg;         ///< running average of gradients; undefined before the first step
  Tensor exp_avg_sq;      ///< of their squares
  Tensor max_exp_avg_sq;  ///< its maximum, under amsgrad only

  /// Whether it has all that a step with these options needs.
  template <class Options>
  bool is_complete(const Options&) const {
    return step == 0 || (exp_avg.defined() && exp_avg_sq.defined());
  }
  template <class Self, class Visit>
  static void for_each_field(Self& self, const Visit& visit) {
    visit("step", self.step);
    visit("exp_avg", self.exp_avg);
    visit("exp_avg_sq", self.exp_avg_sq);
    visit("max_exp_avg_sq", self.max_exp_avg_sq);
  }
  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    for_each_field(*this, [&](const char*, auto& field) { archive& field; });
  }
};

extern template class OptimizerOf<AdamOptions, AdamState>;
extern template class OptimizerOf<AdamWOptions, AdamState>;

/// What Adam and AdamW share.
template <class Options>
class AdamOf : public OptimizerOf<Options, AdamState> {
 protected:
  using OptimizerOf<Options, AdamState>::OptimizerOf;
  void update(std::span<const Optimizer::Ready> ready) override;
};
extern template class AdamOf<AdamOptions>;
extern template class AdamOf<AdamWOptions>;

/// Adam (Kingma and Ba, "Adam: A Method for Stochastic Optimization", 2015), AMSGrad (Reddi et al., "On the
/// Convergence of Adam and Beyond", 2018); arithmetic in PyTorch's order. For a gradient g (negated to maximise,
/// decayed), in step t:
///     m <- beta1 m + (1 - beta1) g;    v <- beta2 v + (1 - beta2) g^2
///     parameter <- parameter - lr / (1 - beta1^t)  m / (sqrt(v) / sqrt(1 - beta2^t) + eps)
class Adam final : public AdamOf<AdamOptions> {
 public:
  explicit Adam(const std::vector<Tensor>& params, const AdamOptions& options = {}) : Adam({Group{params, options}}) {}
  explicit Adam(const std::vector<Tensor>& params, Number auto lr) : Adam(params, AdamOptions{.lr = double(lr)}) {}
  explicit Adam(const std::vector<Group>& groups) : AdamOf("Adam", groups) {}
};

/// Adam whose weight decay does not go through the averages (Loshchilov and Hutter, "Decoupled Weight Decay
/// Regularization", 2019): parameter <- parameter (1 - lr weight_decay) first, then as Adam without decay.
class AdamW final : public AdamOf<AdamWOptions> {
 public:
  explicit AdamW(const std::vector<Tensor>& params, const AdamWOptions& options = {})
      : AdamW({Group{params, options}}) {}
  explicit AdamW(const std::vector<Tensor>& params, Number auto lr) : AdamW(params, AdamWOptions{.lr = double(lr)}) {}
  explicit AdamW(const std::vector<Group>& groups) : AdamOf("AdamW", groups) {}
};

}  // namespace tendril::optim

TENDRIL_API_END
