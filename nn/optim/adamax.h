#pragma once

#include <cstdint>
#include <vector>

#include "tendril/nn/optim/optimizer.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::optim {

struct AdamaxOptions {
  double lr = 2e-3;
  double beta1 = 0.9;           ///< decay rate of the running average of gradients, in [0, 1)
  double beta2 = 0.999;         ///< decay rate of their largest size, in [0, 1)
  double eps = 1e-8;            ///< added to the size of each gradient
  double weight_decay = 0;      ///< L2: adds weight_decay * parameter to the gradient
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
    visit("maximize", self.maximize);
  }
  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    for_each_field(*this, [&](const char*, auto& field) { archive& field; });
    archive& master_weights;
  }
};

/// What it remembers of a parameter.
struct AdamaxState {
  int64_t step = 0;  ///< steps taken by this parameter
  Tensor exp_avg;    ///< running average of gradients; undefined before the first step
  Tensor exp_inf;    ///< their largest size, decayed

  /// Whether it has all that a step with these options needs.
  bool is_complete(const AdamaxOptions&) const { return step == 0 || (exp_avg.defined() && exp_inf.defined()); }
  template <class Self, class Visit>
  static void for_each_field(Self& self, const Visit& visit) {
    visit("step", self.step);
    visit("exp_avg", self.exp_avg);
    visit("exp_inf", self.exp_inf);
  }
  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    for_each_field(*this, [&](const char*, auto& field) { archive& field; });
  }
};

extern template class OptimizerOf<AdamaxOptions, AdamaxState>;

/// Adamax (Kingma and Ba, "Adam: A Method for Stochastic Optimization", 2015, section 7), as PyTorch's. For a gradient
/// g (negated to maximise, decayed), in step t:
///     m <- beta1 m + (1 - beta1) g;    u <- max(beta2 u, |g| + eps)
///     parameter <- parameter - lr / (1 - beta1^t)  m / u
class Adamax final : public OptimizerOf<AdamaxOptions, AdamaxState> {
 public:
  explicit Adamax(const std::vector<Tensor>& params, const AdamaxOptions& options = {})
      : Adamax({Group{params, options}}) {}
  explicit Adamax(const std::vector<Tensor>& params, Number auto lr)
      : Adamax(params, AdamaxOptions{.lr = double(lr)}) {}
  explicit Adamax(const std::vector<Group>& groups) : OptimizerOf("Adamax", groups) {}

 protected:
  void update(std::span<const Ready> ready) override;
};

}  // namespace tendril::optim

TENDRIL_API_END
