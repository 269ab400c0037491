#pragma once

#include <cstddef>
#include <optional>

#include "tendril/dist/optimizer.h"
#include "tendril/nn/optim/optimizer.h"
#include "tendril/tensor/creation.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::dist {

/// Adapts a DistributedOptimizer to the schedules of nn/optim, which set its learning rates.
///
///     dist::Rates rates(opt);
///     optim::lr_scheduler::CosineAnnealingLR schedule(rates, {.T_max = 90});
///     for (...) { ...; opt.step(context); schedule.step(); }
///
/// Each change of a group's rate is a call to the group's owners, and throws OptimizerError as set_lr does. Rates has
/// no momentum (OneCycleLR: `cycle_momentum = false`), cannot step, and has no state other than the optimizer's. Refers
/// to the optimizer, which must outlive it.
template <class O>
class Rates final : public optim::Optimizer {
 public:
  explicit Rates(DistributedOptimizer<O>& of) : Optimizer("Rates"), of_(of) {
    for (std::size_t group = 0; group < of.num_groups(); ++group) {
      add_group({zeros({}, TensorOptions{.device = kCPU})});  // a placeholder
    }
  }
  StateDict state_dict() const override { return of_.state_dict(); }
  LoadReport load_state_dict(const StateDict& dict, const LoadOptions& options = {}) override {
    TENDRIL_CHECK(options.strict && !options.check_only, "Rates::load_state_dict: options: expected the defaults");
    of_.load_state_dict(dict);
    return {};
  }
  double lr(std::size_t group = 0) const override { return of_.lr(group); }
  void set_lr(double lr) override { of_.set_lr(lr); }
  void set_lr(std::size_t group, double lr) override { of_.set_lr(group, lr); }
  std::optional<double> momentum(std::size_t = 0) const override { return std::nullopt; }
  void set_momentum(std::size_t, double) override {
    TENDRIL_CHECK(false, "Rates::set_momentum: a DistributedOptimizer's momentum cannot be changed");
  }

 private:
  void update(std::span<const Ready>) override {
    TENDRIL_CHECK(false, "Rates::step: call DistributedOptimizer::step with a context");
  }

  DistributedOptimizer<O>& of_;
};

}  // namespace tendril::dist

TENDRIL_API_END
