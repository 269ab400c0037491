#pragma once

#include <cstdint>
#include <vector>

#include "tendril/nn/optim/optimizer.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::optim {

struct RMSpropOptions {
  double lr = 1e-2;
  double alpha = 0.99;      ///< decay rate of the running average of squares, in [0, 1]
  double eps = 1e-8;        ///< added to the denominator
  double weight_decay = 0;  ///< L2: adds weight_decay * parameter to the gradient
  double momentum = 0;
  bool centered = false;        ///< divides by the standard deviation
  bool maximize = false;        ///< steps up the gradient
  bool master_weights = false;  ///< float32 copies of float16 and bfloat16 parameters (Optimizer)

  void validate(const char* op) const;  ///< throws Error

  template <class Self, class Visit>
  static void for_each_field(Self& self, const Visit& visit) {
    visit("lr", self.lr);
    visit("alpha", self.alpha);
    visit("eps", self.eps);
    visit("weight_decay", self.weight_decay);
    visit("momentum", self.momentum);
    visit("centered", self.centered);
    visit("maximize", self.maximize);
  }
  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    for_each_field(*this, [&](const char*, auto& field) { archive& field; });
    archive& master_weights;
  }
};

/// What it remembers of a parameter.
struct RMSpropState {
  int64_t step = 0;        ///< steps taken by this parameter
  Tensor square_avg;       ///< running average of squared gradients; undefined before the first step
  Tensor momentum_buffer;  ///< with momentum only
  Tensor grad_avg;         ///< of gradients, if centred only

  /// Whether it has all that a step with these options needs.
  bool is_complete(const RMSpropOptions&) const { return step == 0 || square_avg.defined(); }
  template <class Self, class Visit>
  static void for_each_field(Self& self, const Visit& visit) {
    visit("step", self.step);
    visit("square_avg", self.square_avg);
    visit("momentum_buffer", self.momentum_buffer);
    visit("grad_avg", self.grad_avg);
  }
  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    for_each_field(*this, [&](const char*, auto& field) { archive& field; });
  }
};

extern template class OptimizerOf<RMSpropOptions, RMSpropState>;

/// RMSprop (Tieleman and Hinton, Lecture 6.5, 2012; centred as by Graves, "Generating Sequences With Recurrent Neural
/// Networks", 2013), as PyTorch's. For a gradient g (negated to maximise, decayed):
///     s <- alpha s + (1 - alpha) g^2;    centred: a <- alpha a + (1 - alpha) g, and s - a^2 in place of s
///     d = g / (sqrt(s) + eps);    with momentum: b <- momentum b + d, and b in place of d
///     parameter <- parameter - lr d
class RMSprop final : public OptimizerOf<RMSpropOptions, RMSpropState> {
 public:
  explicit RMSprop(const std::vector<Tensor>& params, const RMSpropOptions& options = {})
      : RMSprop({Group{params, options}}) {}
  explicit RMSprop(const std::vector<Tensor>& params, Number auto lr)
      : RMSprop(params, RMSpropOptions{.lr = double(lr)}) {}
  explicit RMSprop(const std::vector<Group>& groups) : OptimizerOf("RMSprop", groups) {}

 protected:
  void update(std::span<const Ready> ready) override;
};

}  // namespace tendril::optim

TENDRIL_API_END
