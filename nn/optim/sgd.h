#pragma once

#include <vector>

#include "tendril/nn/optim/optimizer.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::optim {

struct SGDOptions {
  double lr = 1e-3;
  double momentum = 0;
  double dampening = 0;         ///< of the gradient that enters the momentum buffer
  double weight_decay = 0;      ///< L2: adds weight_decay * parameter to the gradient
  bool nesterov = false;        ///< needs momentum > 0 and dampening 0
  bool maximize = false;        ///< steps up the gradient
  bool master_weights = false;  ///< float32 copies of float16 and bfloat16 parameters (Optimizer)

  void validate(const char* op) const;  ///< throws Error

  template <class Self, class Visit>
  static void for_each_field(Self& self, const Visit& visit) {
    visit("lr", self.lr);
    visit("momentum", self.momentum);
    visit("dampening", self.dampening);
    visit("weight_decay", self.weight_decay);
    visit("nesterov", self.nesterov);
    visit("maximize", self.maximize);
  }
  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    for_each_field(*this, [&](const char*, auto& field) { archive& field; });
    archive& master_weights;
  }
};

/// What it remembers of a parameter.
struct SGDState {
  Tensor momentum_buffer;  ///< undefined before the first step with momentum

  template <class Self, class Visit>
  static void for_each_field(Self& self, const Visit& visit) {
    visit("momentum_buffer", self.momentum_buffer);
  }
  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    for_each_field(*this, [&](const char*, auto& field) { archive& field; });
  }
};

extern template class OptimizerOf<SGDOptions, SGDState>;

/// Stochastic gradient descent, as PyTorch's: for a gradient g (negated to maximise, decayed) and a momentum m
///     b <- g in the first step, then m b + (1 - dampening) g;    parameter <- parameter - lr d
/// where d is g without momentum, b with it, and g + m b for Nesterov's.
/// (Sutskever et al., "On the importance of initialization and momentum in deep learning", 2013)
class SGD final : public OptimizerOf<SGDOptions, SGDState> {
 public:
  explicit SGD(const std::vector<Tensor>& params, const SGDOptions& options = {}) : SGD({Group{params, options}}) {}
  explicit SGD(const std::vector<Tensor>& params, Number auto lr) : SGD(params, SGDOptions{.lr = double(lr)}) {}
  explicit SGD(const std::vector<Group>& groups) : OptimizerOf("SGD", groups) {}

 protected:
  void update(std::span<const Ready> ready) override;
};

}  // namespace tendril::optim

TENDRIL_API_END
