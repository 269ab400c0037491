#include "tendril/nn/optim/adagrad.h"

#include <cmath>

#include "tendril/nn/optim/detail/step.h"
#include "tendril/nn/optim/detail/validate.h"
#include "tendril/tensor/raw.h"

namespace tendril::optim {

template class OptimizerOf<AdagradOptions, AdagradState>;

void AdagradOptions::validate(const char* op) const {
  detail::check_not_negative(op, "lr", lr);
  detail::check_not_negative(op, "lr_decay", lr_decay);
  detail::check_not_negative(op, "weight_decay", weight_decay);
  detail::check_not_negative(op, "initial_accumulator_value", initial_accumulator_value);
  detail::check_not_negative(op, "eps", eps);
}

void Adagrad::update(std::span<const Ready> ready) {
  step_by(
      ready, [&](std::size_t index) { return state_of(index).step; },
      [&](std::size_t index) {
        const AdagradOptions& options = options_of(index);
        const auto before = static_cast<double>(state_of(index).step);
        return AdagradStep{.lr = options.lr / (1 + before * options.lr_decay),
                           .eps = options.eps,
                           .weight_decay = options.weight_decay,
                           .maximize = options.maximize};
      },
      [&](std::size_t index, void** arrays) {
        AdagradState& state = state_of(index);
        const bool first = !state.sum.defined();
        arrays[2] = state_data(state.sum, index);
        if (first) raw::fill_(state.sum, options_of(index).initial_accumulator_value);
      });
}

}  // namespace tendril::optim
