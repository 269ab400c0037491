// Saving and loading schedules.
#include <cmath>
#include <string>

#include "tendril/nn/optim/lr_scheduler.h"
#include "tendril/tensor/detail/classic_numbers.h"
#include "tendril/tensor/raw.h"

namespace tendril::optim::lr_scheduler {

namespace {

Tensor numbers(const std::vector<double>& values) {
  return raw::from_data(values, {static_cast<int64_t>(values.size())});
}

void read_rates(StateReader& reader, const std::string& name, std::vector<double>& rates) {
  const Tensor* const found = reader.tensor(name, {static_cast<int64_t>(rates.size())}, kFloat64);
  if (!found) return;
  rates = found->to_vector<double>();
  const tendril::detail::ClassicNumbers numbers;
  for (const double rate : rates) {
    if (!(std::isfinite(rate) && rate >= 0)) {
      reader.refuse(name, "got " + std::to_string(rate) + ", expected a finite number, 0 or more");
    }
  }
}

std::string nth(std::size_t i) { return "_schedulers." + std::to_string(i); }

/// Whether a word of the dict belongs to one of `count` schedules.
StateDict without_schedulers(const StateDict& dict, std::size_t count) {
  StateDict rest;
  for (const auto& [name, tensor] : dict) {
    bool theirs = false;
    for (std::size_t i = 0; i < count; ++i) theirs = theirs || name.starts_with(nth(i) + ".");
    if (!theirs) rest.insert(name, tensor);
  }
  return rest;
}

void load_all(const std::vector<LRScheduler*>& schedulers, const StateDict& dict, const LoadOptions& options) {
  for (const bool check : {true, false}) {  // all are asked before the first is changed
    if (!check && options.check_only) return;
    for (std::size_t i = 0; i < schedulers.size(); ++i) {
      schedulers[i]->load_state_dict(dict.section(nth(i)), {.strict = options.strict, .check_only = check});
    }
  }
}

}  // namespace

StateDict LRScheduler::state_dict() const {
  StateDict dict;
  dict.insert("last_epoch", last_epoch_);
  dict.insert("base_lrs", numbers(base_lrs_));
  dict.insert("_last_lr", numbers(last_lr_));
  const_cast<LRScheduler*>(this)->for_each_count([&](const char* name, int64_t& count) { dict.insert(name, count); });
  return dict;
}

LoadReport LRScheduler::load_state_dict(const StateDict& dict, const LoadOptions& options) {
  StateReader reader(dict, "LRScheduler::load_state_dict");
  int64_t epoch = last_epoch_;
  std::vector<double> base = base_lrs_, last = last_lr_;
  reader.count("last_epoch", epoch);
  read_rates(reader, "base_lrs", base);
  read_rates(reader, "_last_lr", last);
  std::vector<int64_t> counts;
  for_each_count([&](const char* name, int64_t& count) { reader.count(name, counts.emplace_back(count)); });
  check_counts(reader, counts);
  LoadReport report = reader.finish(options);
  if (options.check_only) return report;
  last_epoch_ = epoch;
  base_lrs_.swap(base);
  last_lr_.swap(last);
  std::size_t i = 0;
  for_each_count([&](const char*, int64_t& count) { count = counts[i++]; });
  for (std::size_t group = 0; group < base_lrs_.size(); ++group) optimizer_->set_initial_lr(group, base_lrs_[group]);
  return report;
}

void CosineAnnealingWarmRestarts::check_counts(StateReader& reader, const std::vector<int64_t>& counts) const {
  if (counts[0] < counts[1]) return;
  reader.refuse("T_cur", "got " + std::to_string(counts[0]) + " of " + std::to_string(counts[1]) +
                             " epochs (T_i), expected fewer");
}

StateDict ChainedScheduler::state_dict() const {
  StateDict dict;
  for (std::size_t i = 0; i < schedulers_.size(); ++i) dict.insert(nth(i), schedulers_[i]->state_dict());
  return dict;
}

LoadReport ChainedScheduler::load_state_dict(const StateDict& dict, const LoadOptions& options) {
  const StateDict rest = without_schedulers(dict, schedulers_.size());
  StateReader reader(rest, "ChainedScheduler::load_state_dict");
  LoadReport report = reader.finish(options);
  load_all(schedulers_, dict, options);
  if (!options.check_only) last_lr_ = schedulers_.back()->get_last_lr();
  return report;
}

StateDict SequentialLR::state_dict() const {
  StateDict dict;
  dict.insert("last_epoch", last_epoch_);
  for (std::size_t i = 0; i < schedulers_.size(); ++i) dict.insert(nth(i), schedulers_[i]->state_dict());
  return dict;
}

LoadReport SequentialLR::load_state_dict(const StateDict& dict, const LoadOptions& options) {
  const StateDict rest = without_schedulers(dict, schedulers_.size());
  StateReader reader(rest, "SequentialLR::load_state_dict");
  int64_t epoch = last_epoch_;
  reader.count("last_epoch", epoch);
  LoadReport report = reader.finish(options);
  load_all(schedulers_, dict, options);
  if (options.check_only) return report;
  last_epoch_ = epoch;
  for (current_ = 0; current_ < milestones_.size() && milestones_[current_] <= epoch;) ++current_;
  return report;
}

StateDict ReduceLROnPlateau::state_dict() const {
  StateDict dict;
  dict.insert("best", best_);
  dict.insert("last_epoch", last_epoch_);
  dict.insert("num_bad_epochs", bad_epochs_);
  dict.insert("cooldown_counter", cooling_);
  return dict;
}

LoadReport ReduceLROnPlateau::load_state_dict(const StateDict& dict, const LoadOptions& options) {
  StateReader reader(dict, "ReduceLROnPlateau::load_state_dict");
  double best = best_;
  int64_t epoch = last_epoch_, bad = bad_epochs_, cooling = cooling_;
  reader.number("best", best);
  if (std::isnan(best)) reader.refuse("best", "got nan, expected a number");
  reader.count("last_epoch", epoch);
  reader.count("num_bad_epochs", bad);
  reader.count("cooldown_counter", cooling);
  LoadReport report = reader.finish(options);
  if (options.check_only) return report;
  best_ = best;
  last_epoch_ = epoch;
  bad_epochs_ = bad;
  cooling_ = cooling;
  return report;
}

}  // namespace tendril::optim::lr_scheduler
