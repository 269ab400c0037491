#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "tendril/nn/optim/optimizer.h"
#include "tendril/tensor/export.h"
#include "tendril/tensor/state_dict.h"

TENDRIL_API_BEGIN

/// Learning rates that change from epoch to epoch (or batch to batch), with PyTorch's names, defaults and arithmetic:
///
///     optim::SGD sgd(model.parameters(), {.lr = 0.1, .momentum = 0.9});
///     optim::lr_scheduler::CosineAnnealingLR schedule(sgd, {.T_max = 90});
///     for (int epoch = 0; epoch < 90; ++epoch) { train(sgd); schedule.step(); }
///
/// A schedule refers to its optimizer, which must outlive it, and changes the rates of all its groups: each by its own
/// initial rate, the one that it had when the first schedule for the optimizer was made. Making a schedule sets the
/// rates of epoch 0. Several schedules for one optimizer all change its rates, as in PyTorch. If you set a rate
/// yourself between two steps, StepLR, MultiStepLR, ExponentialLR, LinearLR, CosineAnnealingLR and ReduceLROnPlateau go
/// on from it; the others compute each rate from the initial one and overwrite it. If the optimizer gets another group,
/// the next step throws.
/// Thread-safety: the optimizer's. Bad numbers are an Error of the constructor, before anything is changed.
namespace tendril::optim::lr_scheduler {

/// Changes an optimizer's learning rates, one step() after the other.
class LRScheduler {
 public:
  LRScheduler(const LRScheduler&) = delete;
  LRScheduler& operator=(const LRScheduler&) = delete;
  virtual ~LRScheduler() = default;

  /// The next epoch's rates. Throws Error where one would be no finite number of 0 or more; nothing has changed then.
  void step();
  /// Epochs since the start (or the last warm restart of a SequentialLR).
  int64_t last_epoch() const noexcept { return last_epoch_; }
  /// What the last step set, for each group.
  const std::vector<double>& get_last_lr() const noexcept { return last_lr_; }
  /// Whose rates it changes.
  Optimizer& optimizer() const noexcept { return *optimizer_; }
  /// Goes back to epoch 0, from the initial rates. Errors as step().
  void restart();

  /// Where it is: "last_epoch", "base_lrs" and "_last_lr" (one per group), and what a kind of schedule has beside them.
  /// Its options are not in it. Save the optimizer's dict, too: it has the rates.
  StateDict state_dict() const;
  /// Takes the place of a schedule of the same class and number of groups; the optimizer's rates stay as they are.
  /// Throws Error that lists all that is missing, unexpected (both only if `strict`) or does not fit; nothing has
  /// changed then.
  LoadReport load_state_dict(const StateDict& dict, const LoadOptions& options = {});

 protected:
  explicit LRScheduler(Optimizer& optimizer);
  /// Constructors call it last: sets epoch 0, from the rates that the optimizer has.
  void start();
  /// The rate of a group in epoch `last_epoch()`, from the one that it has now.
  virtual double next_lr(std::size_t group, double lr) const = 0;
  /// Before the rates of `last_epoch()` are asked for.
  virtual void on_step() {}
  /// Called when a cycle begins.
  virtual void on_restart() {}
  /// What else is saved: visit(name, an int64_t of its own). All are counts of 0 or more.
  virtual void for_each_count(const std::function<void(const char*, int64_t&)>&) {}
  /// Refuses counts, in the order of for_each_count, that cannot stand together.
  virtual void check_counts(StateReader&, const std::vector<int64_t>&) const {}
  /// The rate that a group began with.
  double base_lr(std::size_t group) const noexcept { return base_lrs_[group]; }
  /// Another rate to compute from.
  void set_base_lr(std::size_t group, double lr) { base_lrs_[group] = lr; }

 private:
  friend class ChainedScheduler;
  /// All that a step changes.
  struct Place {
    int64_t last_epoch;
    std::vector<int64_t> counts;
    std::vector<double> last_lr, rates;          // the latter: the optimizer's, by group
    std::vector<std::optional<double>> momenta;  // likewise
  };
  Place place();
  void go_back(const Place& before);
  /// Calls `change`; if it throws, the schedules and their optimizer are as before.
  static void as_a_whole(std::span<LRScheduler* const> schedulers, const std::function<void()>& change);
  void set_rates();

  Optimizer* optimizer_;
  std::vector<double> base_lrs_, last_lr_;
  int64_t last_epoch_ = 0;
};

struct StepLROptions {
  int64_t step_size = 1;  ///< epochs; positive
  double gamma = 0.1;     ///< the factor
};
/// Times gamma every step_size epochs.
class StepLR final : public LRScheduler {
 public:
  StepLR(Optimizer& optimizer, const StepLROptions& options);
  /// `StepLR(optimizer, 10, 0.1)`.
  StepLR(Optimizer& optimizer, std::integral auto step_size, double gamma = 0.1)
      : StepLR(optimizer, StepLROptions{.step_size = step_size, .gamma = gamma}) {}

 private:
  double next_lr(std::size_t group, double lr) const override;
  StepLROptions options_;
};

struct MultiStepLROptions {
  std::vector<int64_t> milestones = {};  ///< epochs; one that is there twice counts twice
  double gamma = 0.1;                    ///< the factor
};
/// Times gamma at each milestone.
class MultiStepLR final : public LRScheduler {
 public:
  MultiStepLR(Optimizer& optimizer, const MultiStepLROptions& options);
  /// `MultiStepLR(optimizer, {10, 20}, 0.1)`.
  MultiStepLR(Optimizer& optimizer, const std::vector<int64_t>& milestones, double gamma = 0.1)
      : MultiStepLR(optimizer, MultiStepLROptions{.milestones = milestones, .gamma = gamma}) {}

 private:
  double next_lr(std::size_t group, double lr) const override;
  MultiStepLROptions options_;
};

/// Times gamma every epoch.
class ExponentialLR final : public LRScheduler {
 public:
  ExponentialLR(Optimizer& optimizer, double gamma);

 private:
  double next_lr(std::size_t group, double lr) const override;
  double gamma_;
};

struct LinearLROptions {
  double start_factor = 1.0 / 3;  ///< in (0, 1]
  double end_factor = 1;          ///< in [0, 1]
  int64_t total_iters = 5;        ///< epochs from one to the other; positive
};
/// A linear warm-up: the rate times a factor that goes from start_factor to end_factor, and stays there.
class LinearLR final : public LRScheduler {
 public:
  explicit LinearLR(Optimizer& optimizer, const LinearLROptions& options = {});

 private:
  double next_lr(std::size_t group, double lr) const override;
  LinearLROptions options_;
};

struct CosineAnnealingLROptions {
  int64_t T_max = 1;   ///< epochs from the initial rate to eta_min; positive
  double eta_min = 0;  ///< the lowest rate
};
/// Half a cosine from the initial rate down to eta_min, then up again, and so on.
/// (Loshchilov and Hutter, "SGDR", 2017, without restarts)
class CosineAnnealingLR final : public LRScheduler {
 public:
  CosineAnnealingLR(Optimizer& optimizer, const CosineAnnealingLROptions& options);
  /// `CosineAnnealingLR(optimizer, 100)`.
  CosineAnnealingLR(Optimizer& optimizer, std::integral auto T_max, double eta_min = 0)
      : CosineAnnealingLR(optimizer, CosineAnnealingLROptions{.T_max = T_max, .eta_min = eta_min}) {}

 private:
  double next_lr(std::size_t group, double lr) const override;
  CosineAnnealingLROptions options_;
};

struct CosineAnnealingWarmRestartsOptions {
  int64_t T_0 = 1;     ///< epochs of the first cycle; positive
  int64_t T_mult = 1;  ///< each cycle is so many times as long as the one before; positive
  double eta_min = 0;  ///< the lowest rate
};
/// Half a cosine down to eta_min, from the top again each cycle. (Loshchilov and Hutter, "SGDR", 2017)
class CosineAnnealingWarmRestarts final : public LRScheduler {
 public:
  CosineAnnealingWarmRestarts(Optimizer& optimizer, const CosineAnnealingWarmRestartsOptions& options);

 private:
  double next_lr(std::size_t group, double lr) const override;
  void on_step() override;
  void on_restart() override;
  void for_each_count(const std::function<void(const char*, int64_t&)>& visit) override;
  void check_counts(StateReader& reader, const std::vector<int64_t>& counts) const override;
  CosineAnnealingWarmRestartsOptions options_;
  int64_t in_cycle_ = 0, cycle_;
};

/// The initial rate times `factor(epoch)`.
class LambdaLR final : public LRScheduler {
 public:
  LambdaLR(Optimizer& optimizer, const std::function<double(int64_t)>& factor);
  /// One for each group.
  LambdaLR(Optimizer& optimizer, std::vector<std::function<double(int64_t)>> factors);

 private:
  double next_lr(std::size_t group, double lr) const override;
  std::vector<std::function<double(int64_t)>> factors_;
};

/// The form of OneCycleLR's slopes.
enum class AnnealStrategy : uint8_t {
  cos,     ///< half a period of a cosine
  linear,  ///< a straight line
};

struct OneCycleLROptions {
  double max_lr = 0;                                     ///< the peak, for all groups; positive
  int64_t total_steps = 0;                               ///< batches of the cycle; positive
  double pct_start = 0.3;                                ///< the share of steps until the peak, in [0, 1]
  AnnealStrategy anneal_strategy = AnnealStrategy::cos;  ///< the form of the slopes
  bool cycle_momentum = true;     ///< momentum (or beta1) falls while the rate rises; needs an optimizer that has one
  double base_momentum = 0.85;    ///< at the peak of the rate
  double max_momentum = 0.95;     ///< at its beginning and end
  double div_factor = 25;         ///< the first rate is max_lr / div_factor
  double final_div_factor = 1e4;  ///< the last one is the first / final_div_factor
  bool three_phase = false;       ///< down as fast as up, then to the last rate
};
/// One rise and fall of the rate, stepped after each batch. The step after the last batch, number total_steps, leaves
/// the last rate (PyTorch goes on along the slope there); one more is an Error.
/// (Smith and Topin, "Super-Convergence", 2018)
class OneCycleLR final : public LRScheduler {
 public:
  OneCycleLR(Optimizer& optimizer, const OneCycleLROptions& options);

 private:
  struct Phase {
    double end;  ///< its last step
    double from_lr, to_lr, from_momentum, to_momentum;
  };
  double next_lr(std::size_t group, double lr) const override;
  void on_step() override;
  void on_restart() override;
  double at(double Phase::*from, double Phase::*to) const;
  void set_momenta();
  OneCycleLROptions options_;
  std::vector<Phase> phases_;
};

/// Steps several schedules of one optimizer, one after the other: their factors multiply.
class ChainedScheduler {
 public:
  /// The schedules must outlive it. Error unless there is one at least and all are of one optimizer.
  explicit ChainedScheduler(std::vector<LRScheduler*> schedulers);
  /// One epoch further. Errors as LRScheduler's: no schedule has stepped then.
  void step();
  /// The rate of each group.
  const std::vector<double>& get_last_lr() const noexcept { return last_lr_; }
  /// The schedules', as "_schedulers.0....". Loads as LRScheduler's does.
  StateDict state_dict() const;
  /// What state_dict gave.
  LoadReport load_state_dict(const StateDict& dict, const LoadOptions& options = {});

 private:
  std::vector<LRScheduler*> schedulers_;
  std::vector<double> last_lr_;
};

/// One schedule after the other: from milestone i on, schedule i + 1, from its epoch 0.
class SequentialLR {
 public:
  /// The schedules must outlive it. Error unless they are of one optimizer, there is one milestone less than schedules,
  /// and milestones are positive and increase.
  SequentialLR(std::vector<LRScheduler*> schedulers, std::vector<int64_t> milestones);
  /// One epoch further. Errors as LRScheduler's: nothing has changed then.
  void step();
  /// How many steps there have been.
  int64_t last_epoch() const noexcept { return last_epoch_; }
  /// The rate of each group.
  const std::vector<double>& get_last_lr() const noexcept { return schedulers_[current_]->get_last_lr(); }
  /// Its own place and the schedules', as "_schedulers.0....". Loads as LRScheduler's does.
  StateDict state_dict() const;
  /// What state_dict gave.
  LoadReport load_state_dict(const StateDict& dict, const LoadOptions& options = {});

 private:
  std::vector<LRScheduler*> schedulers_;
  std::vector<int64_t> milestones_;
  std::size_t current_ = 0;
  int64_t last_epoch_ = 0;
};

/// Whether a smaller or a larger number is better.
enum class PlateauMode : uint8_t {
  min,  ///< a smaller one
  max,  ///< a larger one
};
/// Whether the threshold is a part of the best number or a difference to it.
enum class ThresholdMode : uint8_t {
  rel,  ///< a part of it
  abs,  ///< a difference
};

struct ReduceLROnPlateauOptions {
  PlateauMode mode = PlateauMode::min;                ///< whether the metric should fall or rise
  double factor = 0.1;                                ///< below 1
  int64_t patience = 10;                              ///< epochs without improvement that are let pass
  double threshold = 1e-4;                            ///< what counts as an improvement
  ThresholdMode threshold_mode = ThresholdMode::rel;  ///< what the threshold is a part of
  int64_t cooldown = 0;                               ///< epochs after a reduction that do not count
  double min_lr = 0;                                  ///< no rate falls below it
  double eps = 1e-8;                                  ///< smaller changes of the rate are not made
};
/// Times `factor` when a metric has stopped improving for more than `patience` epochs.
class ReduceLROnPlateau {
 public:
  explicit ReduceLROnPlateau(Optimizer& optimizer, const ReduceLROnPlateauOptions& options = {});
  ReduceLROnPlateau(const ReduceLROnPlateau&) = delete;
  ReduceLROnPlateau& operator=(const ReduceLROnPlateau&) = delete;

  void step(double metric);  ///< a NaN is no improvement
  /// How many steps there have been.
  int64_t last_epoch() const noexcept { return last_epoch_; }
  /// The best metric so far.
  double best() const noexcept { return best_; }
  /// How many epochs without a better one.
  int64_t num_bad_epochs() const noexcept { return bad_epochs_; }
  /// The rate of each group.
  std::vector<double> get_last_lr() const;
  /// "best", "last_epoch", "num_bad_epochs", "cooldown_counter". Loads as LRScheduler's does.
  StateDict state_dict() const;
  /// What state_dict gave.
  LoadReport load_state_dict(const StateDict& dict, const LoadOptions& options = {});

 private:
  bool is_better(double metric) const;

  Optimizer* optimizer_;
  ReduceLROnPlateauOptions options_;
  double best_;
  int64_t last_epoch_ = 0, bad_epochs_ = 0, cooling_ = 0;
};

}  // namespace tendril::optim::lr_scheduler

TENDRIL_API_END
