#pragma once

#include <cstdint>
#include <vector>

#include "tendril/nn/optim/optimizer.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::optim {

struct AdagradOptions {
  double lr = 1e-2;
  double lr_decay = 0;                   ///< the rate is lr / (1 + (step - 1) lr_decay)
  double weight_decay = 0;               ///< L2: adds weight_decay * parameter to the gradient
  double initial_accumulator_value = 0;  ///< what s starts from
  double eps = 1e-10;                    ///< added to the denominator
  bool maximize = false;                 ///< steps up the gradient
  bool master_weights = false;           ///< float32 copies of float16 and bfloat16 parameters (Optimizer)

  void validate(const char* op) const;  ///< throws Error

  template <class Self, class Visit>
  static void for_each_field(Self& self, const Visit& visit) {
    visit("lr", self.lr);
    visit("lr_decay", self.lr_decay);
    visit("weight_decay", self.weight_decay);
    visit("initial_accumulator_value", self.initial_accumulator_value);
    visit("eps", self.eps);
    visit("maximize", self.maximize);
  }
  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    for_each_field(*this, [&](const char*, auto& field) { archive& field; });
    archive& master_weights;
  }
};

/// What it remembers of a parameter.
struct AdagradState {
  int64_t step = 0;  ///< steps taken by this parameter
  Tensor sum;        ///< of squared gradients; undefined before the first step

  /// Whether it has all that a step with these options needs.
  bool is_complete(const AdagradOptions&) const { return step == 0 || sum.defined(); }
  template <class Self, class Visit>
  static void for_each_field(Self& self, const Visit& visit) {
    visit("step", self.step);
    visit("sum", self.sum);
  }
  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    for_each_field(*this, [&](const char*, auto& field) { archive& field; });
  }
};

extern template class OptimizerOf<AdagradOptions, AdagradState>;

/// Adagrad (Duchi, Hazan and Singer, "Adaptive Subgradient Methods for Online Learning and Stochastic Optimization",
/// 2011), as PyTorch's. For a gradient g (negated to maximise, decayed), in step t:
///     s <- s + g^2;    parameter <- parameter - lr / (1 + (t - 1) lr_decay)  g / (sqrt(s) + eps)
class Adagrad final : public OptimizerOf<AdagradOptions, AdagradState> {
 public:
  explicit Adagrad(const std::vector<Tensor>& params, const AdagradOptions& options = {})
      : Adagrad({Group{params, options}}) {}
  explicit Adagrad(const std::vector<Tensor>& params, Number auto lr)
      : Adagrad(params, AdagradOptions{.lr = double(lr)}) {}
  explicit Adagrad(const std::vector<Group>& groups) : OptimizerOf("Adagrad", groups) {}

 protected:
  void update(std::span<const Ready> ready) override;
};

}  // namespace tendril::optim

TENDRIL_API_END
