#pragma once

#include <vector>

#include "tendril/nn/optim/optimizer.h"
#include "tendril/tensor/kernels.h"

/// Optimizer::step_by, for the sources of optimizers: it knows of kernels, which their headers need not.
namespace tendril::optim {

template <class Key, class Rule, class State>
void Optimizer::step_by(std::span<const Ready> ready, const Key& key, const Rule& rule, const State& state) {
  std::vector<StepBlock> blocks;
  for_each_run(ready, key, [&](std::span<const Ready> run) {
    const DeviceKernels table = kernels(run[0].param.device());
    const auto kernel = require(table->optimizer_step, name_, *table);
    const StepRule step = rule(run[0].index);
    const DType dtype = run[0].param.dtype();
    const bool halves = computed_in(dtype) != dtype;
    blocks.clear();
    for (const auto& [index, param, grad] : run) {
      StepBlock& block = blocks.emplace_back(StepBlock{{param.raw_data(), grad.raw_data()}, param.numel()});
      if (halves) block.master = master_data(index);
      state(index, block.arrays);
    }
    kernel(blocks, dtype, step);
  });
}

}  // namespace tendril::optim
