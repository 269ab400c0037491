#pragma once

#include <vector>

#include "tendril/nn/optim/optimizer.h"

namespace tendril::optim {

struct SignumOptions {
  double lr = 1e-4;
  double momentum = 0.9;  ///< decay rate of the running average of gradients, in [0, 1)

  void validate(const char* op) const;  ///< throws Error

  template <class Self, class Visit>
  static void for_each_field(Self& self, const Visit& visit) {
    visit("lr", self.lr);
    visit("momentum", self.momentum);
  }
};

struct SignumState {
  Tensor momentum_buffer;  ///< undefined before the first step

  template <class Self, class Visit>
  static void for_each_field(Self& self, const Visit& visit) {
    visit("momentum_buffer", self.momentum_buffer);
  }
};

/// Signum (Bernstein et al., "signSGD", 2018): parameter <- parameter - lr sign(m), m being the average of gradients.
class Signum final : public OptimizerOf<SignumOptions, SignumState> {
 public:
  explicit Signum(const std::vector<Tensor>& params, const SignumOptions& options = {})
      : OptimizerOf("Signum", {Group{params, options}}) {}

 protected:
  void update(std::span<const Ready> ready) override;
};

}  // namespace tendril::optim
