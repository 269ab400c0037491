#include "tendril/nn/optim/signum.h"

#include "tendril/nn/optim/detail/step.h"
#include "tendril/nn/optim/detail/validate.h"

namespace tendril::optim {

void SignumOptions::validate(const char* op) const {
  detail::check_not_negative(op, "lr", lr);
  detail::check_decay_rate(op, "momentum", momentum);
}

void Signum::update(std::span<const Ready> ready) {
  step_by(
      ready, [](std::size_t) { return true; },
      [&](std::size_t index) { return SignumStep{.lr = options_of(index).lr, .kept = options_of(index).momentum}; },
      [&](std::size_t index, void** arrays) { arrays[2] = state_data(state_of(index).momentum_buffer, index); });
}

}  // namespace tendril::optim
