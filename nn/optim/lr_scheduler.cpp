#include "tendril/nn/optim/lr_scheduler.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "tendril/nn/optim/detail/validate.h"

namespace tendril::optim::lr_scheduler {

namespace {

void check_positive(const char* op, const char* option, int64_t value) {
  TENDRIL_CHECK(value > 0, op, ": ", option, ": got ", value, ", expected a positive number");
}
void check_within(const char* op, const char* option, double value, double low, double high) {
  TENDRIL_CHECK(value >= low && value <= high, op, ": ", option, ": got ", value, ", expected a number in [", low, ", ",
                high, "]");
}

double half_cosine(int64_t step, int64_t steps) {
  return (1 + std::cos(std::numbers::pi * static_cast<double>(step) / static_cast<double>(steps))) / 2;
}

}  // namespace

// ---- what they share

LRScheduler::LRScheduler(Optimizer& optimizer) : optimizer_(&optimizer) {
  for (std::size_t group = 0; group < optimizer.num_groups(); ++group) base_lrs_.push_back(optimizer.initial_lr(group));
}

void LRScheduler::set_rates() {
  TENDRIL_CHECK(optimizer_->num_groups() == base_lrs_.size(), "LRScheduler::step: the optimizer has ",
                optimizer_->num_groups(), " groups, expected ", base_lrs_.size(), " as when the schedule was made");
  std::vector<double> rates;  // all, before the first is set
  for (std::size_t group = 0; group < base_lrs_.size(); ++group) {
    rates.push_back(next_lr(group, optimizer_->lr(group)));
    TENDRIL_CHECK(std::isfinite(rates.back()) && rates.back() >= 0, "LRScheduler::step: the rate of group ", group,
                  " in epoch ", last_epoch_, " would be ", rates.back(), ", expected a finite number, 0 or more");
  }
  for (std::size_t group = 0; group < base_lrs_.size(); ++group) optimizer_->set_lr(group, rates[group]);
  last_lr_.swap(rates);
}

LRScheduler::Place LRScheduler::place() {
  Place now{last_epoch_, {}, last_lr_, {}, {}};
  for_each_count([&](const char*, int64_t& count) { now.counts.push_back(count); });
  for (std::size_t group = 0; group < optimizer_->num_groups(); ++group) {
    now.rates.push_back(optimizer_->lr(group));
    now.momenta.push_back(optimizer_->momentum(group));
  }
  return now;
}

void LRScheduler::go_back(const Place& before) {
  last_epoch_ = before.last_epoch;
  last_lr_ = before.last_lr;
  std::size_t i = 0;
  for_each_count([&](const char*, int64_t& count) { count = before.counts[i++]; });
  for (std::size_t group = 0; group < before.rates.size(); ++group) {
    optimizer_->set_lr(group, before.rates[group]);
    if (before.momenta[group]) optimizer_->set_momentum(group, *before.momenta[group]);
  }
}

void LRScheduler::as_a_whole(std::span<LRScheduler* const> schedulers, const std::function<void()>& change) {
  std::vector<Place> before;
  for (LRScheduler* each : schedulers) before.push_back(each->place());
  try {
    change();
  } catch (...) {
    for (std::size_t i = 0; i < before.size(); ++i) schedulers[i]->go_back(before[i]);
    throw;
  }
}

void LRScheduler::step() {
  detail::refuse_recording("LRScheduler::step");
  LRScheduler* const self = this;
  as_a_whole({&self, 1}, [this] {
    ++last_epoch_;
    on_step();
    set_rates();
  });
}

void LRScheduler::restart() {
  LRScheduler* const self = this;
  as_a_whole({&self, 1}, [this] {
    for (std::size_t group = 0; group < base_lrs_.size(); ++group) optimizer_->set_lr(group, base_lrs_[group]);
    start();
  });
}

void LRScheduler::start() {
  LRScheduler* const self = this;
  as_a_whole({&self, 1}, [this] {
    last_epoch_ = 0;
    on_restart();
    set_rates();
  });
  for (std::size_t group = 0; group < base_lrs_.size(); ++group) optimizer_->set_initial_lr(group, base_lrs_[group]);
}

// ---- step, multi-step, exponential, linear

StepLR::StepLR(Optimizer& optimizer, const StepLROptions& options) : LRScheduler(optimizer), options_(options) {
  check_positive("StepLR", "step_size", options.step_size);
  detail::check_not_negative("StepLR", "gamma", options.gamma);
  start();
}

double StepLR::next_lr(std::size_t, double lr) const {
  return last_epoch() > 0 && last_epoch() % options_.step_size == 0 ? lr * options_.gamma : lr;
}

MultiStepLR::MultiStepLR(Optimizer& optimizer, const MultiStepLROptions& options)
    : LRScheduler(optimizer), options_(options) {
  detail::check_not_negative("MultiStepLR", "gamma", options.gamma);
  start();
}

double MultiStepLR::next_lr(std::size_t, double lr) const {
  const auto times = std::ranges::count(options_.milestones, last_epoch());
  return times == 0 ? lr : lr * std::pow(options_.gamma, static_cast<double>(times));
}

ExponentialLR::ExponentialLR(Optimizer& optimizer, double gamma) : LRScheduler(optimizer), gamma_(gamma) {
  detail::check_not_negative("ExponentialLR", "gamma", gamma);
  start();
}

double ExponentialLR::next_lr(std::size_t, double lr) const { return last_epoch() == 0 ? lr : lr * gamma_; }

LinearLR::LinearLR(Optimizer& optimizer, const LinearLROptions& options) : LRScheduler(optimizer), options_(options) {
  TENDRIL_CHECK(options.start_factor > 0 && options.start_factor <= 1, "LinearLR: start_factor: got ",
                options.start_factor, ", expected a number in (0, 1]");
  check_within("LinearLR", "end_factor", options.end_factor, 0, 1);
  check_positive("LinearLR", "total_iters", options.total_iters);
  start();
}

double LinearLR::next_lr(std::size_t, double lr) const {
  const auto& [from, to, iters] = options_;
  if (last_epoch() == 0) return lr * from;
  if (last_epoch() > iters) return lr;
  return lr *
         (1 + (to - from) / (static_cast<double>(iters) * from + static_cast<double>(last_epoch() - 1) * (to - from)));
}

// ---- cosine

CosineAnnealingLR::CosineAnnealingLR(Optimizer& optimizer, const CosineAnnealingLROptions& options)
    : LRScheduler(optimizer), options_(options) {
  check_positive("CosineAnnealingLR", "T_max", options.T_max);
  detail::check_not_negative("CosineAnnealingLR", "eta_min", options.eta_min);
  start();
}

double CosineAnnealingLR::next_lr(std::size_t group, double lr) const {
  const int64_t epoch = last_epoch(), T = options_.T_max;
  if (epoch == 0) return lr;
  if ((epoch - 1 - T) % (2 * T) == 0) {  // at the bottom, from which a factor cannot lead up
    return lr + (base_lr(group) - options_.eta_min) * (1 - half_cosine(1, T));
  }
  return half_cosine(epoch, T) / half_cosine(epoch - 1, T) * (lr - options_.eta_min) + options_.eta_min;
}

CosineAnnealingWarmRestarts::CosineAnnealingWarmRestarts(Optimizer& optimizer,
                                                         const CosineAnnealingWarmRestartsOptions& options)
    : LRScheduler(optimizer), options_(options), cycle_(options.T_0) {
  check_positive("CosineAnnealingWarmRestarts", "T_0", options.T_0);
  check_positive("CosineAnnealingWarmRestarts", "T_mult", options.T_mult);
  detail::check_not_negative("CosineAnnealingWarmRestarts", "eta_min", options.eta_min);
  start();
}

double CosineAnnealingWarmRestarts::next_lr(std::size_t group, double) const {
  return options_.eta_min + (base_lr(group) - options_.eta_min) * half_cosine(in_cycle_, cycle_);
}

void CosineAnnealingWarmRestarts::on_step() {
  if (++in_cycle_ < cycle_) return;
  in_cycle_ = 0;
  if (cycle_ <= INT64_MAX / options_.T_mult) cycle_ *= options_.T_mult;
}

void CosineAnnealingWarmRestarts::for_each_count(const std::function<void(const char*, int64_t&)>& visit) {
  visit("T_cur", in_cycle_);
  visit("T_i", cycle_);
}

void CosineAnnealingWarmRestarts::on_restart() {
  in_cycle_ = 0;
  cycle_ = options_.T_0;
}

// ---- by a function

LambdaLR::LambdaLR(Optimizer& optimizer, const std::function<double(int64_t)>& factor)
    : LambdaLR(optimizer, std::vector(optimizer.num_groups(), factor)) {}

LambdaLR::LambdaLR(Optimizer& optimizer, std::vector<std::function<double(int64_t)>> factors)
    : LRScheduler(optimizer), factors_(std::move(factors)) {
  TENDRIL_CHECK(factors_.size() == optimizer.num_groups(), "LambdaLR: got ", factors_.size(), " functions, expected ",
                optimizer.num_groups(), ", one per group");
  for (const auto& factor : factors_) TENDRIL_CHECK(factor, "LambdaLR: got an empty function");
  start();
}

double LambdaLR::next_lr(std::size_t group, double) const { return base_lr(group) * factors_[group](last_epoch()); }

// ---- one cycle

namespace {

/// Where a phase ends, in steps. It is a product less one, and the processor decides whether the product is rounded in
/// between: fused, 0.1 * 10 - 1 is 5.6e-17. Whether a phase has a length must not hang on that.
double end_of_phase(double steps) {
  const double whole = std::round(steps);
  return std::abs(steps - whole) < 1e-9 ? whole : steps;
}

}  // namespace

OneCycleLR::OneCycleLR(Optimizer& optimizer, const OneCycleLROptions& options)
    : LRScheduler(optimizer), options_(options) {
  const char* op = "OneCycleLR";
  TENDRIL_CHECK(std::isfinite(options.max_lr) && options.max_lr > 0, op, ": max_lr: got ", options.max_lr,
                ", expected a positive number");
  check_positive(op, "total_steps", options.total_steps);
  check_within(op, "pct_start", options.pct_start, 0, 1);
  TENDRIL_CHECK(options.div_factor > 0 && options.final_div_factor > 0, op, ": div_factor and final_div_factor: got ",
                options.div_factor, " and ", options.final_div_factor, ", expected positive numbers");
  TENDRIL_CHECK(!options.cycle_momentum || optimizer.momentum().has_value(), op,
                ": cycle_momentum: got true for an optimizer without momentum or beta1, expected false");
  if (options.cycle_momentum) {
    for (const auto& [option, value] :
         {std::pair{"base_momentum", options.base_momentum}, std::pair{"max_momentum", options.max_momentum}}) {
      TENDRIL_CHECK(value >= 0 && value < 1, op, ": ", option, ": got ", value, ", expected a number in [0, 1)");
    }
  }
  const double first = options.max_lr / options.div_factor, last = first / options.final_div_factor;
  const double low = options.base_momentum, high = options.max_momentum;
  const auto steps = static_cast<double>(options.total_steps);
  phases_.push_back({end_of_phase(options.pct_start * steps - 1), first, options.max_lr, high, low});
  if (options.three_phase) {
    phases_.push_back({end_of_phase(2 * options.pct_start * steps - 2), options.max_lr, first, low, high});
    phases_.push_back({steps - 1, first, last, high, high});
  } else {
    phases_.push_back({steps - 1, options.max_lr, last, low, high});
  }
  for (std::size_t group = 0; group < optimizer.num_groups(); ++group) set_base_lr(group, first);
  start();
}

double OneCycleLR::at(double Phase::*from, double Phase::*to) const {
  const double step = std::min(static_cast<double>(last_epoch()), phases_.back().end);
  double begin = 0;
  for (std::size_t i = 0; i < phases_.size(); ++i) {
    const Phase& phase = phases_[i];
    if (step <= phase.end || i + 1 == phases_.size()) {
      // A phase of no length (one step in all before the peak) is at its end.
      const double share = phase.end > begin ? (step - begin) / (phase.end - begin) : 1;
      if (options_.anneal_strategy == AnnealStrategy::linear) return (phase.*to - phase.*from) * share + phase.*from;
      return phase.*to + (phase.*from - phase.*to) / 2 * (1 + std::cos(std::numbers::pi * share));
    }
    begin = phase.end;
  }
  return phases_.back().*to;
}

double OneCycleLR::next_lr(std::size_t, double) const { return at(&Phase::from_lr, &Phase::to_lr); }

void OneCycleLR::on_step() {
  TENDRIL_CHECK(last_epoch() <= options_.total_steps, "OneCycleLR::step: this is call ", last_epoch(),
                ", expected at most total_steps, ", options_.total_steps);
  set_momenta();
}

void OneCycleLR::on_restart() { set_momenta(); }

void OneCycleLR::set_momenta() {
  if (!options_.cycle_momentum) return;
  const double momentum = at(&Phase::from_momentum, &Phase::to_momentum);
  for (std::size_t group = 0; group < optimizer().num_groups(); ++group) optimizer().set_momentum(group, momentum);
}

// ---- several

namespace {

void check_together(const char* op, const std::vector<LRScheduler*>& schedulers) {
  TENDRIL_CHECK(!schedulers.empty(), op, ": got no schedules, expected at least one");
  for (const LRScheduler* each : schedulers) {
    TENDRIL_CHECK(each, op, ": got a null schedule");
    TENDRIL_CHECK(&each->optimizer() == &schedulers[0]->optimizer(), op,
                  ": got schedules of several optimizers, expected one");
  }
}

}  // namespace

ChainedScheduler::ChainedScheduler(std::vector<LRScheduler*> schedulers) : schedulers_(std::move(schedulers)) {
  check_together("ChainedScheduler", schedulers_);
  last_lr_ = schedulers_.back()->get_last_lr();
}

void ChainedScheduler::step() {
  LRScheduler::as_a_whole(schedulers_, [this] {
    for (LRScheduler* each : schedulers_) each->step();
  });
  last_lr_ = schedulers_.back()->get_last_lr();
}

SequentialLR::SequentialLR(std::vector<LRScheduler*> schedulers, std::vector<int64_t> milestones)
    : schedulers_(std::move(schedulers)), milestones_(std::move(milestones)) {
  check_together("SequentialLR", schedulers_);
  TENDRIL_CHECK(milestones_.size() + 1 == schedulers_.size(), "SequentialLR: got ", milestones_.size(),
                " milestones, expected ", schedulers_.size() - 1, ", one less than schedules");
  for (std::size_t i = 0; i < milestones_.size(); ++i) {
    TENDRIL_CHECK(milestones_[i] > (i == 0 ? 0 : milestones_[i - 1]), "SequentialLR: milestones: got ", milestones_[i],
                  " in place ", i, ", expected increasing positive numbers");
  }
  schedulers_[0]->restart();
}

void SequentialLR::step() {
  detail::refuse_recording("SequentialLR::step");
  const bool begins = current_ < milestones_.size() && last_epoch_ + 1 == milestones_[current_];
  if (begins) {
    schedulers_[current_ + 1]->restart();
  } else {
    schedulers_[current_]->step();
  }
  current_ += begins ? 1 : 0;  // now that nothing can throw
  ++last_epoch_;
}

// ---- by a metric

ReduceLROnPlateau::ReduceLROnPlateau(Optimizer& optimizer, const ReduceLROnPlateauOptions& options)
    : optimizer_(&optimizer), options_(options), best_(options.mode == PlateauMode::min ? HUGE_VAL : -HUGE_VAL) {
  const char* op = "ReduceLROnPlateau";
  TENDRIL_CHECK(options.factor >= 0 && options.factor < 1, op, ": factor: got ", options.factor,
                ", expected a number in [0, 1)");
  TENDRIL_CHECK(options.patience >= 0, op, ": patience: got ", options.patience, ", expected 0 or more");
  TENDRIL_CHECK(options.cooldown >= 0, op, ": cooldown: got ", options.cooldown, ", expected 0 or more");
  detail::check_finite(op, "threshold", options.threshold);
  detail::check_not_negative(op, "min_lr", options.min_lr);
  detail::check_not_negative(op, "eps", options.eps);
}

bool ReduceLROnPlateau::is_better(double metric) const {
  const bool lower = options_.mode == PlateauMode::min;
  if (!std::isfinite(best_)) return lower ? metric < best_ : metric > best_;
  const double margin = options_.threshold * (options_.threshold_mode == ThresholdMode::rel ? std::abs(best_) : 1);
  return lower ? metric < best_ - margin : metric > best_ + margin;
}

void ReduceLROnPlateau::step(double metric) {
  detail::refuse_recording("ReduceLROnPlateau::step");
  ++last_epoch_;
  if (is_better(metric)) {
    best_ = metric;
    bad_epochs_ = 0;
  } else {
    ++bad_epochs_;
  }
  if (cooling_ > 0) {
    --cooling_;
    bad_epochs_ = 0;
  }
  if (bad_epochs_ <= options_.patience) return;
  for (std::size_t group = 0; group < optimizer_->num_groups(); ++group) {
    const double lr = optimizer_->lr(group), reduced = std::max(lr * options_.factor, options_.min_lr);
    if (lr - reduced > options_.eps) optimizer_->set_lr(group, reduced);
  }
  cooling_ = options_.cooldown;
  bad_epochs_ = 0;
}

std::vector<double> ReduceLROnPlateau::get_last_lr() const {
  std::vector<double> rates;
  for (std::size_t group = 0; group < optimizer_->num_groups(); ++group) rates.push_back(optimizer_->lr(group));
  return rates;
}

}  // namespace tendril::optim::lr_scheduler
