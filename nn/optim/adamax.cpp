#include "tendril/nn/optim/adamax.h"

#include <cmath>

#include "tendril/nn/optim/detail/step.h"
#include "tendril/nn/optim/detail/validate.h"

namespace tendril::optim {

template class OptimizerOf<AdamaxOptions, AdamaxState>;

void AdamaxOptions::validate(const char* op) const {
  detail::check_not_negative(op, "lr", lr);
  detail::check_decay_rate(op, "beta1", beta1);
  detail::check_decay_rate(op, "beta2", beta2);
  detail::check_not_negative(op, "eps", eps);
  detail::check_not_negative(op, "weight_decay", weight_decay);
}

void Adamax::update(std::span<const Ready> ready) {
  step_by(
      ready, [&](std::size_t index) { return state_of(index).step; },
      [&](std::size_t index) {
        const AdamaxOptions& options = options_of(index);
        const auto t = static_cast<double>(state_of(index).step + 1);
        return AdamaxStep{.step_size = options.lr / (1 - std::pow(options.beta1, t)),
                          .one_minus_beta1 = 1 - options.beta1,
                          .beta2 = options.beta2,
                          .eps = options.eps,
                          .weight_decay = options.weight_decay,
                          .maximize = options.maximize};
      },
      [&](std::size_t index, void** arrays) {
        AdamaxState& state = state_of(index);
        arrays[2] = state_data(state.exp_avg, index);
        arrays[3] = state_data(state.exp_inf, index);
      });
}

}  // namespace tendril::optim
