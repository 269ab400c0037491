#include "tendril/nn/optim/lr_scheduler.h"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <functional>
#include <memory>
#include <string>

#include "tendril/nn/optim/adagrad.h"
#include "tendril/nn/optim/adam.h"
#include "tendril/nn/optim/sgd.h"
#include "tendril/tensor/raw.h"
#include "tests/errors.h"
#include "tests/golden.h"
#include "tests/make.h"

BOOST_AUTO_TEST_SUITE(lr_scheduler)

using namespace tendril::optim::lr_scheduler;
using tendril::Error;
using tendril::Tensor;
using tendril::optim::SGD;
using tendril::testing::difference;
using tendril::testing::Golden;
using tendril::testing::says;
namespace make = tendril::make;

namespace {

const Golden& golden() {
  static const Golden file(TENDRIL_TEST_DATA "/lr_scheduler.txt");
  return file;
}

/// As golden_optim.py's: two groups, of rates 1 and 0.3.
struct Two {
  Tensor a = make::zeros({1}).requires_grad_(), b = make::zeros({1}).requires_grad_();
  SGD sgd{{{.params = {a}, .options = {.lr = 1, .momentum = 0.9}},
           {.params = {b}, .options = {.lr = 0.3, .momentum = 0.9}}}};
};

using Step = std::function<void(int64_t)>;

/// The rates that `make(optimizer)`, a function of one step, goes through.
void check(const std::string& name, const std::function<Step(SGD&)>& make_steps) {
  Two two;
  const Tensor expected = golden().get(name);
  const int64_t epochs = expected.size(0);
  const Step step = make_steps(two.sgd);
  std::vector<double> rates, momenta;
  for (int64_t epoch = 0; epoch < epochs; ++epoch) {
    for (std::size_t group : {0u, 1u}) rates.push_back(two.sgd.lr(group));
    momenta.push_back(*two.sgd.momentum());
    if (epoch + 1 < epochs) step(epoch);
  }
  BOOST_TEST(difference(tendril::raw::from_data(rates, {epochs, 2}), expected, 1e-12, 1e-15) == "", name);
  if (!golden().has(name + ".momentum")) return;
  BOOST_TEST(difference(tendril::raw::from_data(momenta, {epochs}), golden().get(name + ".momentum"), 1e-12) == "",
             name);
}

/// Of a schedule that is stepped without a word.
template <class Schedule, class... Arguments>
void check_schedule(const std::string& name, Arguments... arguments) {
  check(name, [&](SGD& sgd) -> Step {
    auto schedule = std::make_shared<Schedule>(sgd, arguments...);
    return [schedule](int64_t epoch) {
      schedule->step();
      BOOST_TEST(schedule->last_epoch() == epoch + 1);
      BOOST_TEST(schedule->get_last_lr()[1] == schedule->optimizer().lr(1));
    };
  });
}

}  // namespace

BOOST_AUTO_TEST_CASE(forty_epochs_have_pytorchs_rates) {
  check_schedule<StepLR>("step", StepLROptions{.step_size = 7, .gamma = 0.5});
  check_schedule<MultiStepLR>("multi_step", MultiStepLROptions{.milestones = {3, 10, 10, 25}, .gamma = 0.5});
  check_schedule<ExponentialLR>("exponential", 0.9);
  check_schedule<LinearLR>("linear");
  check_schedule<LinearLR>("linear_options",
                           LinearLROptions{.start_factor = 0.1, .end_factor = 0.7, .total_iters = 12});
  check_schedule<CosineAnnealingLR>("cosine", CosineAnnealingLROptions{.T_max = 12, .eta_min = 0.01});
  check_schedule<CosineAnnealingWarmRestarts>(
      "warm_restarts", CosineAnnealingWarmRestartsOptions{.T_0 = 5, .T_mult = 2, .eta_min = 0.01});
  check_schedule<CosineAnnealingWarmRestarts>("warm_restarts_alike", CosineAnnealingWarmRestartsOptions{.T_0 = 6});
  const auto inverse = [](int64_t epoch) { return 1 / (1 + static_cast<double>(epoch)); };
  check_schedule<LambdaLR>("lambda", std::function<double(int64_t)>(inverse));
  check_schedule<LambdaLR>("lambdas", std::vector<std::function<double(int64_t)>>{
                                          inverse, [](int64_t epoch) { return std::pow(0.5, epoch); }});
}

BOOST_AUTO_TEST_CASE(one_cycle_has_pytorchs_rates_and_momenta) {
  check_schedule<OneCycleLR>("one_cycle", OneCycleLROptions{.max_lr = 2, .total_steps = 40});
  check_schedule<OneCycleLR>("one_cycle_linear", OneCycleLROptions{.max_lr = 2,
                                                                   .total_steps = 40,
                                                                   .anneal_strategy = AnnealStrategy::linear,
                                                                   .div_factor = 10,
                                                                   .final_div_factor = 100});
  check_schedule<OneCycleLR>("one_cycle_three", OneCycleLROptions{.max_lr = 2,
                                                                  .total_steps = 40,
                                                                  .pct_start = 0.25,
                                                                  .base_momentum = 0.7,
                                                                  .max_momentum = 0.9,
                                                                  .three_phase = true});
}

BOOST_AUTO_TEST_CASE(several_schedules_have_pytorchs_rates) {
  check("chained", [](SGD& sgd) -> Step {
    auto linear = std::make_shared<LinearLR>(sgd, LinearLROptions{.start_factor = 0.1, .total_iters = 4});
    auto decay = std::make_shared<ExponentialLR>(sgd, 0.9);
    auto both = std::make_shared<ChainedScheduler>(std::vector<LRScheduler*>{linear.get(), decay.get()});
    return [linear, decay, both](int64_t) { both->step(); };
  });
  check("sequential", [](SGD& sgd) -> Step {
    auto linear = std::make_shared<LinearLR>(sgd, LinearLROptions{.start_factor = 0.1, .total_iters = 5});
    auto cosine = std::make_shared<CosineAnnealingLR>(sgd, CosineAnnealingLROptions{.T_max = 30});
    auto both =
        std::make_shared<SequentialLR>(std::vector<LRScheduler*>{linear.get(), cosine.get()}, std::vector<int64_t>{5});
    return [linear, cosine, both](int64_t epoch) {
      both->step();
      BOOST_TEST(both->last_epoch() == epoch + 1);
    };
  });
}

BOOST_AUTO_TEST_CASE(a_plateau_is_pytorchs) {
  const std::vector<double> metrics = golden().get("metrics").to_vector<double>();
  const auto check_plateau = [&](const std::string& name, const ReduceLROnPlateauOptions& options) {
    check(name, [&](SGD& sgd) -> Step {
      auto plateau = std::make_shared<ReduceLROnPlateau>(sgd, options);
      return [plateau, &metrics](int64_t epoch) { plateau->step(metrics[static_cast<std::size_t>(epoch)]); };
    });
  };
  check_plateau("plateau", {.patience = 2});
  check_plateau("plateau_max", {.mode = PlateauMode::max, .factor = 0.5, .patience = 1, .cooldown = 3});
  check_plateau("plateau_abs",
                {.factor = 0.3, .patience = 0, .threshold = 0.3, .threshold_mode = ThresholdMode::abs, .min_lr = 1e-3});
}

namespace {

/// A schedule that is stopped after seven epochs and goes on in another one has the rates of one that ran through.
template <class Schedule, class... Arguments>
void check_resumed(Arguments... arguments) {
  Two first, second;
  Schedule whole(first.sgd, arguments...), fresh(second.sgd, arguments...);
  for (int epoch = 0; epoch < 7; ++epoch) whole.step();
  second.sgd.load_state_dict(first.sgd.state_dict());
  fresh.load_state_dict(whole.state_dict());
  for (int epoch = 0; epoch < 20; ++epoch) {
    for (std::size_t group : {0u, 1u}) BOOST_TEST(second.sgd.lr(group) == first.sgd.lr(group));
    whole.step();
    fresh.step();
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_saved_schedule_goes_on_where_it_was) {
  check_resumed<StepLR>(StepLROptions{.step_size = 3});
  check_resumed<LinearLR>(LinearLROptions{.total_iters = 12});
  check_resumed<CosineAnnealingLR>(CosineAnnealingLROptions{.T_max = 9});
  check_resumed<CosineAnnealingWarmRestarts>(CosineAnnealingWarmRestartsOptions{.T_0 = 5, .T_mult = 2});
  check_resumed<OneCycleLR>(OneCycleLROptions{.max_lr = 2, .total_steps = 40});

  Two two, other;
  LinearLR warm(two.sgd, {.total_iters = 3}), other_warm(other.sgd, {.total_iters = 3});
  ExponentialLR decay(two.sgd, 0.5), other_decay(other.sgd, 0.5);
  SequentialLR both({&warm, &decay}, {4}), other_both({&other_warm, &other_decay}, {4});
  for (int epoch = 0; epoch < 6; ++epoch) both.step();
  other.sgd.load_state_dict(two.sgd.state_dict());
  other_both.load_state_dict(both.state_dict());
  for (int epoch = 0; epoch < 3; ++epoch) {
    both.step();
    other_both.step();
    BOOST_TEST(other.sgd.lr() == two.sgd.lr());
  }
}

BOOST_AUTO_TEST_CASE(a_saved_plateau_keeps_its_patience) {
  Two two, other;
  ReduceLROnPlateau plateau(two.sgd, {.patience = 3}), fresh(other.sgd, {.patience = 3});
  for (int epoch = 0; epoch < 4; ++epoch) plateau.step(1);
  fresh.load_state_dict(plateau.state_dict());
  BOOST_TEST(fresh.num_bad_epochs() == 3);
  fresh.step(1);
  BOOST_TEST(other.sgd.lr() == 0.1);
}

BOOST_AUTO_TEST_CASE(what_does_not_fit_is_listed_and_not_loaded) {
  Two two;
  StepLR schedule(two.sgd, {.step_size = 3});
  tendril::StateDict dict;
  dict.insert("last_epoch", int64_t{-4});
  dict.insert("base_lrs", make::zeros({3}, tendril::kFloat64));
  dict.insert("T_cur", int64_t{1});
  BOOST_CHECK_EXCEPTION(schedule.load_state_dict(dict), Error,
                        says("last_epoch", "-4", "base_lrs", "[3]", "_last_lr", "T_cur"));
  BOOST_TEST(schedule.last_epoch() == 0);
}

BOOST_AUTO_TEST_CASE(a_cycle_drives_adams_first_rate_of_decay) {
  tendril::optim::Adam adam({make::zeros({1}).requires_grad_()});
  OneCycleLR cycle(adam, {.max_lr = 0.1, .total_steps = 10});
  BOOST_TEST(adam.options().beta1 == 0.95);
  cycle.step();
  BOOST_TEST(adam.options().beta1 < 0.95);
}

BOOST_AUTO_TEST_CASE(a_cycle_ends) {
  Two two;
  OneCycleLR cycle(two.sgd, {.max_lr = 0.1, .total_steps = 2});
  cycle.step();
  const double last = two.sgd.lr();
  cycle.step();  // after the second and last batch, as each loop does
  BOOST_TEST(two.sgd.lr() == last);
  BOOST_CHECK_EXCEPTION(cycle.step(), Error, says("OneCycleLR", "call 3", "total_steps", "2"));
  BOOST_TEST(two.sgd.lr() == last);
  BOOST_TEST(cycle.last_epoch() == 2);
}

BOOST_AUTO_TEST_CASE(what_makes_no_sense_is_refused_and_changes_nothing) {
  Two two;
  SGD& sgd = two.sgd;
  BOOST_CHECK_EXCEPTION(StepLR(sgd, {.step_size = 0}), Error, says("StepLR", "step_size", "0"));
  BOOST_CHECK_EXCEPTION(ExponentialLR(sgd, -1), Error, says("ExponentialLR", "gamma", "-1"));
  BOOST_CHECK_EXCEPTION(LinearLR(sgd, {.start_factor = 0}), Error, says("LinearLR", "start_factor", "(0, 1]"));
  BOOST_CHECK_EXCEPTION(LinearLR(sgd, {.end_factor = 2}), Error, says("LinearLR", "end_factor", "[0, 1]"));
  BOOST_CHECK_EXCEPTION(CosineAnnealingLR(sgd, {.T_max = -3}), Error, says("CosineAnnealingLR", "T_max", "-3"));
  BOOST_CHECK_EXCEPTION(CosineAnnealingWarmRestarts(sgd, {.T_0 = 0}), Error, says("T_0", "0"));
  BOOST_CHECK_EXCEPTION(LambdaLR(sgd, std::vector<std::function<double(int64_t)>>{}), Error,
                        says("LambdaLR", "0", "2"));
  BOOST_CHECK_EXCEPTION(OneCycleLR(sgd, {.total_steps = 3}), Error, says("OneCycleLR", "max_lr", "0"));
  BOOST_CHECK_EXCEPTION(ChainedScheduler({}), Error, says("ChainedScheduler", "at least one"));
  BOOST_CHECK_EXCEPTION(ReduceLROnPlateau(sgd, {.factor = 1}), Error, says("ReduceLROnPlateau", "factor", "1"));
  BOOST_TEST(sgd.lr(0) == 1);
  BOOST_TEST(sgd.lr(1) == 0.3);
  tendril::optim::Adagrad adagrad({make::zeros({1}).requires_grad_()});
  BOOST_CHECK_EXCEPTION(OneCycleLR(adagrad, {.max_lr = 1, .total_steps = 3}), Error, says("cycle_momentum", "false"));
  StepLR step(sgd, {.step_size = 2});
  BOOST_CHECK_EXCEPTION(SequentialLR({&step}, {1}), Error, says("SequentialLR", "milestones", "1"));
  sgd.add_param_group({.params = {make::zeros({1}).requires_grad_()}});
  BOOST_CHECK_EXCEPTION(step.step(), Error, says("3 groups", "2"));
}

BOOST_AUTO_TEST_CASE(a_rate_set_by_hand_is_where_factors_go_on_from) {
  const auto rate_after = [](const std::function<std::unique_ptr<LRScheduler>(SGD&)>& make_schedule) {
    Two two;
    const auto schedule = make_schedule(two.sgd);
    two.sgd.set_lr(0, 8);
    schedule->step();
    return two.sgd.lr(0);
  };
  BOOST_TEST(rate_after([](SGD& sgd) { return std::make_unique<StepLR>(sgd, 1, 0.5); }) == 4);
  BOOST_TEST(rate_after([](SGD& sgd) { return std::make_unique<ExponentialLR>(sgd, 0.5); }) == 4);
  const auto lambda = [](SGD& sgd) { return std::make_unique<LambdaLR>(sgd, [](int64_t) { return 0.5; }); };
  BOOST_TEST(rate_after(lambda) == 0.5);  // of the initial rate
}

BOOST_AUTO_TEST_CASE(a_group_that_is_added_later_is_refused) {
  Two two;
  StepLR schedule(two.sgd, {.step_size = 1, .gamma = 0.5});
  two.sgd.add_param_group({.params = {make::zeros({1})}, .options = {.lr = 2}});
  BOOST_CHECK_EXCEPTION(schedule.step(), Error, says("LRScheduler::step", "3 groups", "expected 2"));
  BOOST_TEST(two.sgd.lr(0) == 1);
  BOOST_TEST(schedule.last_epoch() == 0);
}

BOOST_AUTO_TEST_CASE(a_step_that_fails_changes_nothing) {
  Two two;
  LambdaLR falling(two.sgd, [](int64_t epoch) { return epoch == 2 ? -1.0 : 1.0 / static_cast<double>(1 + epoch); });
  falling.step();
  for (int i = 0; i < 2; ++i) {
    BOOST_CHECK_EXCEPTION(falling.step(), Error, says("group 0", "epoch 2", "-1"));
    BOOST_TEST(falling.last_epoch() == 1);
    BOOST_TEST(two.sgd.lr(0) == 0.5);
    BOOST_TEST(two.sgd.lr(1) == 0.15);
  }
  Two others;
  BOOST_CHECK_EXCEPTION(OneCycleLR(others.sgd, {.max_lr = 1, .total_steps = 10, .max_momentum = 2}), Error,
                        says("OneCycleLR", "max_momentum", "2"));
  const std::optional<double> momentum = others.sgd.momentum();
  BOOST_CHECK_EXCEPTION(OneCycleLR(others.sgd, {.max_lr = 1e10, .total_steps = 10, .div_factor = 1e-300}), Error,
                        says("inf"));
  BOOST_TEST((others.sgd.momentum() == momentum));
  BOOST_TEST(others.sgd.lr(0) == 1);
  BOOST_TEST(others.sgd.initial_lr(0) == 1);
}

BOOST_AUTO_TEST_CASE(a_step_of_several_schedules_that_fails_changes_nothing) {
  bool bad = false;
  const auto factor = [&](int64_t epoch) { return bad ? -1.0 : 1.0 / static_cast<double>(1 + epoch); };
  Two two;
  ExponentialLR first(two.sgd, 0.5);
  LambdaLR second(two.sgd, factor);
  SequentialLR both({&first, &second}, {2});
  const auto fails = [&](auto& schedule) {
    const double rate = two.sgd.lr(0);
    const std::vector<double> last = schedule.get_last_lr();
    const int64_t epochs = first.last_epoch(), of_second = second.last_epoch();
    bad = true;
    for (int i = 0; i < 2; ++i) BOOST_CHECK_EXCEPTION(schedule.step(), Error, says("group 0", "-"));
    bad = false;
    BOOST_TEST(two.sgd.lr(0) == rate);
    BOOST_TEST((schedule.get_last_lr() == last));
    BOOST_TEST(first.last_epoch() == epochs);
    BOOST_TEST(second.last_epoch() == of_second);
  };
  both.step();
  fails(both);  // where the second schedule would begin
  BOOST_TEST(both.last_epoch() == 1);
  both.step();
  BOOST_TEST(two.sgd.lr(0) == 1);
  fails(both);  // within the second
  BOOST_TEST(both.last_epoch() == 2);
  both.step();
  BOOST_TEST(two.sgd.lr(0) == 0.5);

  ChainedScheduler chained({&first, &second});
  fails(chained);
  chained.step();
  BOOST_TEST(first.last_epoch() == 2);
}

BOOST_AUTO_TEST_CASE(a_one_cycle_step_that_fails_leaves_the_momentum) {
  Two two;
  OneCycleLR cycle(two.sgd, {.max_lr = 0.5, .total_steps = 10});
  const double momentum = *two.sgd.momentum(0);
  two.sgd.add_param_group({.params = {make::zeros({1}).requires_grad_()}});
  BOOST_CHECK_EXCEPTION(cycle.step(), Error, says("3 groups", "2"));
  BOOST_TEST(cycle.last_epoch() == 0);
  BOOST_TEST(*two.sgd.momentum(0) == momentum);
}

BOOST_AUTO_TEST_CASE(a_cycle_may_begin_at_its_peak) {
  // The last differ from the first as its product with 10 does where it is not rounded before 1 is subtracted.
  for (const double pct_start : {0.1, std::nextafter(0.1, 0), std::nextafter(0.1, 1)}) {
    for (const bool three_phase : {false, true}) {
      Two two;
      OneCycleLR cycle(two.sgd, {.max_lr = 0.5, .total_steps = 10, .pct_start = pct_start, .three_phase = three_phase});
      BOOST_TEST(two.sgd.lr(0) == 0.5);
      for (int i = 1; i < 10; ++i) cycle.step();
      BOOST_TEST(std::abs(two.sgd.lr(0) - 0.5 / 25 / 1e4) < 1e-12);
    }
  }
}

BOOST_AUTO_TEST_CASE(counts_that_nobody_counted_are_refused) {
  Two two;
  CosineAnnealingWarmRestarts schedule(two.sgd, {.T_0 = 3});
  for (const auto& [name, value] : {std::pair{"last_epoch", INT64_MAX}, std::pair{"T_cur", int64_t{3}}}) {
    tendril::StateDict changed;
    for (const auto& [entry, tensor] : schedule.state_dict()) {
      if (entry != name) changed.insert(entry, tensor);
    }
    changed.insert(name, value);
    BOOST_CHECK_EXCEPTION(schedule.load_state_dict(changed), Error, says(name));
  }
}

BOOST_AUTO_TEST_CASE(a_plateau_is_found_for_metrics_of_any_sign) {
  for (const double at : {-100.0, 0.0, 100.0}) {
    for (const PlateauMode mode : {PlateauMode::min, PlateauMode::max}) {
      const double better = mode == PlateauMode::min ? -1 : 1;
      const Tensor x = make::ones({1}).requires_grad_();
      SGD sgd({x}, {.lr = 1});
      ReduceLROnPlateau plateau(sgd, {.mode = mode, .patience = 2, .threshold = 1e-3});
      plateau.step(at);
      for (int i = 0; i < 3; ++i) plateau.step(at);
      BOOST_TEST(sgd.lr() < 1, at);  // nothing has improved
      const double lr = sgd.lr();
      for (int i = 1; i < 10; ++i) plateau.step(at + better * i);  // each by 1%, more than the threshold
      BOOST_TEST(sgd.lr() == lr, at);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
