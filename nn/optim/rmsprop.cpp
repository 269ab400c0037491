#include "tendril/nn/optim/rmsprop.h"

#include <cmath>

#include "tendril/nn/optim/detail/step.h"
#include "tendril/nn/optim/detail/validate.h"

namespace tendril::optim {

template class OptimizerOf<RMSpropOptions, RMSpropState>;

void RMSpropOptions::validate(const char* op) const {
  detail::check_not_negative(op, "lr", lr);
  TENDRIL_CHECK(alpha >= 0 && alpha <= 1, op, ": alpha: got ", alpha, ", expected a number in [0, 1]");
  detail::check_not_negative(op, "eps", eps);
  detail::check_not_negative(op, "weight_decay", weight_decay);
  detail::check_not_negative(op, "momentum", momentum);
}

void RMSprop::update(std::span<const Ready> ready) {
  step_by(
      ready, [](std::size_t) { return true; },
      [&](std::size_t index) {
        const RMSpropOptions& options = options_of(index);
        return RmspropStep{.lr = options.lr,
                           .alpha = options.alpha,
                           .one_minus_alpha = 1 - options.alpha,
                           .eps = options.eps,
                           .weight_decay = options.weight_decay,
                           .momentum = options.momentum,
                           .centered = options.centered,
                           .maximize = options.maximize};
      },
      [&](std::size_t index, void** arrays) {
        RMSpropState& state = state_of(index);
        arrays[2] = state_data(state.square_avg, index);
        if (options_of(index).momentum != 0) arrays[3] = state_data(state.momentum_buffer, index);
        if (options_of(index).centered) arrays[4] = state_data(state.grad_avg, index);
      });
}

}  // namespace tendril::optim
