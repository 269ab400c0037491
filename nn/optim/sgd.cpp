#include "tendril/nn/optim/sgd.h"

#include "tendril/nn/optim/detail/step.h"
#include "tendril/nn/optim/detail/validate.h"

namespace tendril::optim {

template class OptimizerOf<SGDOptions, SGDState>;

void SGDOptions::validate(const char* op) const {
  detail::check_not_negative(op, "lr", lr);
  detail::check_not_negative(op, "momentum", momentum);
  detail::check_finite(op, "dampening", dampening);
  detail::check_not_negative(op, "weight_decay", weight_decay);
  TENDRIL_CHECK(!nesterov || (momentum > 0 && dampening == 0), op, ": nesterov: got true with momentum = ", momentum,
                " and dampening = ", dampening, ", expected a positive momentum and no dampening");
}

void SGD::update(std::span<const Ready> ready) {
  step_by(
      ready, [&](std::size_t index) { return state_of(index).momentum_buffer.defined(); },
      [&](std::size_t index) {
        const SGDOptions& options = options_of(index);
        const bool first = !state_of(index).momentum_buffer.defined();
        return SgdStep{.lr = options.lr,
                       .weight_decay = options.weight_decay,
                       .momentum = options.momentum,
                       .kept = first ? 0 : options.momentum,
                       .entering = first ? 1 : 1 - options.dampening,
                       .nesterov = options.nesterov,
                       .maximize = options.maximize};
      },
      [&](std::size_t index, void** arrays) {
        if (options_of(index).momentum != 0) arrays[2] = state_data(state_of(index).momentum_buffer, index);
      });
}

}  // namespace tendril::optim
