#include "tendril/nn/optim/adam.h"

#include <cmath>

#include "tendril/nn/optim/detail/validate.h"
#include "tendril/tensor/kernels.h"

namespace tendril::optim {

void AdamOptions::validate(const char* op) const {
  detail::check_not_negative(op, "lr", lr);
  detail::check_decay_rate(op, "beta1", beta1);
  detail::check_decay_rate(op, "beta2", beta2);
  detail::check_not_negative(op, "eps", eps);
  detail::check_not_negative(op, "weight_decay", weight_decay);
}

void Adam::update(std::span<const Ready> ready) {
  std::vector<AdamBlock> blocks;
  for_each_run(
      ready, [&](std::size_t index) { return state_of(index).step; },
      [&](std::span<const Ready> run) {
        const AdamOptions& options = options_of(run[0].index);
        const Kernels& table = kernels(run[0].param.device());
        const auto kernel = require(table.adam, name(), table);
        const double t = static_cast<double>(state_of(run[0].index).step + 1);
        const AdamStep step{.step_size = options.lr / (1 - std::pow(options.beta1, t)),
                            .v_scale = std::sqrt(1 - std::pow(options.beta2, t)),
                            .beta1 = options.beta1,
                            .one_minus_beta1 = 1 - options.beta1,
                            .beta2 = options.beta2,
                            .one_minus_beta2 = 1 - options.beta2,
                            .eps = options.eps,
                            .weight_decay = options.weight_decay,
                            .amsgrad = options.amsgrad,
                            .maximize = options.maximize};
        blocks.clear();
        for (const auto& [index, param, grad] : run) {
          AdamState& state = state_of(index);
          blocks.push_back({param.raw_data(), grad.raw_data(), state_data(state.exp_avg, index),
                            state_data(state.exp_avg_sq, index),
                            options.amsgrad ? state_data(state.max_exp_avg_sq, index) : nullptr, param.numel()});
        }
        kernel(blocks, run[0].param.dtype(), step);
        for (const Ready& one : run) ++state_of(one.index).step;
      });
}

}  // namespace tendril::optim
