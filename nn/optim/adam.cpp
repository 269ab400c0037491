#include "tendril/nn/optim/adam.h"

#include <cmath>

#include "tendril/nn/optim/detail/step.h"
#include "tendril/nn/optim/detail/validate.h"

namespace tendril::optim {

template class OptimizerOf<AdamOptions, AdamState>;
template class OptimizerOf<AdamWOptions, AdamState>;

namespace {

template <class Options>
void validate_adam(const char* op, const Options& options) {
  detail::check_not_negative(op, "lr", options.lr);
  detail::check_decay_rate(op, "beta1", options.beta1);
  detail::check_decay_rate(op, "beta2", options.beta2);
  detail::check_not_negative(op, "eps", options.eps);
  detail::check_not_negative(op, "weight_decay", options.weight_decay);
}

/// Step t, from 1 on, without decay.
template <class Options>
AdamStep adam_step(const Options& options, double t) {
  return {.step_size = options.lr / (1 - std::pow(options.beta1, t)),
          .v_scale = std::sqrt(1 - std::pow(options.beta2, t)),
          .beta1 = options.beta1,
          .one_minus_beta1 = 1 - options.beta1,
          .beta2 = options.beta2,
          .one_minus_beta2 = 1 - options.beta2,
          .eps = options.eps,
          .amsgrad = options.amsgrad,
          .maximize = options.maximize};
}

}  // namespace

void AdamOptions::validate(const char* op) const { validate_adam(op, *this); }
void AdamWOptions::validate(const char* op) const { validate_adam(op, *this); }

template <class Options>
void AdamOf<Options>::update(std::span<const Optimizer::Ready> ready) {
  this->step_by(
      ready, [&](std::size_t index) { return this->state_of(index).step; },
      [&](std::size_t index) {
        const Options& options = this->options_of(index);
        AdamStep step = adam_step(options, static_cast<double>(this->state_of(index).step + 1));
        if constexpr (std::is_same_v<Options, AdamWOptions>) {
          step.shrink = 1 - options.lr * options.weight_decay;
        } else {
          step.weight_decay = options.weight_decay;
        }
        return step;
      },
      [&](std::size_t index, void** arrays) {
        AdamState& state = this->state_of(index);
        arrays[2] = this->state_data(state.exp_avg, index);
        arrays[3] = this->state_data(state.exp_avg_sq, index);
        if (this->options_of(index).amsgrad) arrays[4] = this->state_data(state.max_exp_avg_sq, index);
      });
}

template class AdamOf<AdamOptions>;
template class AdamOf<AdamWOptions>;

}  // namespace tendril::optim
