#include "tendril/nn/optim/lion.h"

#include <cmath>

#include "tendril/nn/optim/detail/step.h"
#include "tendril/nn/optim/detail/validate.h"

namespace tendril::optim {

template class OptimizerOf<LionOptions, LionState>;

void LionOptions::validate(const char* op) const {
  detail::check_not_negative(op, "lr", lr);
  detail::check_decay_rate(op, "beta1", beta1);
  detail::check_decay_rate(op, "beta2", beta2);
  detail::check_not_negative(op, "weight_decay", weight_decay);
}

void Lion::update(std::span<const Ready> ready) {
  step_by(
      ready, [](std::size_t) { return true; },
      [&](std::size_t index) {
        const LionOptions& options = options_of(index);
        return LionStep{.lr = options.lr,
                        .shrink = 1 - options.lr * options.weight_decay,
                        .beta1 = options.beta1,
                        .one_minus_beta1 = 1 - options.beta1,
                        .beta2 = options.beta2,
                        .one_minus_beta2 = 1 - options.beta2,
                        .maximize = options.maximize};
      },
      [&](std::size_t index, void** arrays) {
        LionState& state = state_of(index);
        arrays[2] = state_data(state.exp_avg, index);
      });
}

}  // namespace tendril::optim
