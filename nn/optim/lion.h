#pragma once

#include <cstdint>
#include <vector>

#include "tendril/nn/optim/optimizer.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::optim {

struct LionOptions {
  double lr = 1e-4;
  double beta1 = 0.9;           ///< share of the average in the direction of a step, in [0, 1)
  double beta2 = 0.99;          ///< decay rate of the running average of gradients, in [0, 1)
  double weight_decay = 0;      ///< of the parameter itself
  bool maximize = false;        ///< steps up the gradient
  bool master_weights = false;  ///< float32 copies of float16 and bfloat16 parameters (Optimizer)

  void validate(const char* op) const;  ///< throws Error

  template <class Self, class Visit>
  static void for_each_field(Self& self, const Visit& visit) {
    visit("lr", self.lr);
    visit("betas.0", self.beta1);
    visit("betas.1", self.beta2);
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
struct LionState {
  Tensor exp_avg;  ///< running average of gradients; undefined before the first step

  template <class Self, class Visit>
  static void for_each_field(Self& self, const Visit& visit) {
    visit("exp_avg", self.exp_avg);
  }
  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    for_each_field(*this, [&](const char*, auto& field) { archive& field; });
  }
};

extern template class OptimizerOf<LionOptions, LionState>;

/// Lion (Chen et al., "Symbolic Discovery of Optimization Algorithms", 2023, with its defaults; PyTorch has none). For
/// a gradient g (negated to maximise):
///     parameter <- parameter (1 - lr weight_decay) - lr sign(beta1 m + (1 - beta1) g)
///     m <- beta2 m + (1 - beta2) g
class Lion final : public OptimizerOf<LionOptions, LionState> {
 public:
  explicit Lion(const std::vector<Tensor>& params, const LionOptions& options = {}) : Lion({Group{params, options}}) {}
  explicit Lion(const std::vector<Tensor>& params, Number auto lr) : Lion(params, LionOptions{.lr = double(lr)}) {}
  explicit Lion(const std::vector<Group>& groups) : OptimizerOf("Lion", groups) {}

 protected:
  void update(std::span<const Ready> ready) override;
};

}  // namespace tendril::optim

TENDRIL_API_END
