#include "tendril/nn/optim/sgd.h"

#include "tendril/nn/optim/detail/validate.h"
#include "tendril/tensor/kernels.h"

namespace tendril::optim {

void SGDOptions::validate(const char* op) const {
  detail::check_not_negative(op, "lr", lr);
  detail::check_not_negative(op, "momentum", momentum);
  detail::check_finite(op, "dampening", dampening);
  detail::check_not_negative(op, "weight_decay", weight_decay);
  TENDRIL_CHECK(!nesterov || (momentum > 0 && dampening == 0), op, ": nesterov: got true with momentum = ", momentum,
                " and dampening = ", dampening, ", expected a positive momentum and no dampening");
}

void SGD::update(std::span<const Ready> ready) {
  std::vector<SgdBlock> blocks;
  for_each_run(
      ready, [&](std::size_t index) { return state_of(index).momentum_buffer.defined(); },
      [&](std::span<const Ready> run) {
        const SGDOptions& options = options_of(run[0].index);
        const Kernels& table = kernels(run[0].param.device());
        const auto kernel = require(table.sgd, name(), table);
        const bool first = !state_of(run[0].index).momentum_buffer.defined();
        const SgdStep step{.lr = options.lr,
                           .weight_decay = options.weight_decay,
                           .momentum = options.momentum,
                           .kept = first ? 0 : options.momentum,
                           .entering = first ? 1 : 1 - options.dampening,
                           .nesterov = options.nesterov,
                           .maximize = options.maximize};
        blocks.clear();
        for (const auto& [index, param, grad] : run) {
          void* momentum = options.momentum == 0 ? nullptr : state_data(state_of(index).momentum_buffer, index);
          blocks.push_back({param.raw_data(), grad.raw_data(), momentum, param.numel()});
        }
        kernel(blocks, run[0].param.dtype(), step);
      });
}

}  // namespace tendril::optim
