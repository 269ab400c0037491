#include "tendril/nn/optim/adagrad.h"

#include <boost/test/unit_test.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/errors.h"
#include "tests/make.h"
#include "tests/nn/optim/golden_steps.h"

BOOST_AUTO_TEST_SUITE(adagrad)

using tendril::Error;
using tendril::Tensor;
using tendril::optim::Adagrad;
using tendril::optim::AdagradOptions;
using tendril::testing::GoldenSteps;
using tendril::testing::says;
namespace make = tendril::make;

BOOST_AUTO_TEST_CASE(twenty_steps_equal_pytorchs) {
  const std::vector<std::pair<std::string, AdagradOptions>> cases = {
      {"plain", {.lr = 0.1}},
      {"options", {.lr = 0.1, .lr_decay = 0.1, .weight_decay = 0.2, .initial_accumulator_value = 0.5, .eps = 1e-3}},
      {"maximize", {.lr = 0.1, .maximize = true}},
  };
  const auto check_states = [](const GoldenSteps& steps, const Adagrad& optimizer, const std::string& name) {
    for (std::size_t i = 0; i < 2; ++i) {
      const auto& state = optimizer.state(steps.params[i]);
      steps.check_state(name + ".sum", i, state.sum);
      BOOST_TEST(state.step == steps.steps - static_cast<int64_t>(i));  // the second parameter misses one
    }
  };
  tendril::testing::check_optimizer<Adagrad>("adagrad.txt", cases, AdagradOptions{.lr = 0.1}, check_states);
}

BOOST_AUTO_TEST_CASE(each_group_has_its_own_options) {
  tendril::testing::check_groups<Adagrad>("adagrad.txt", AdagradOptions{.lr = 0.1},
                                          AdagradOptions{.lr = 0.02, .lr_decay = 0.5});
}

BOOST_AUTO_TEST_CASE(a_rate_may_stand_for_the_options) {
  const Tensor param = make::ones({2}).requires_grad_();
  BOOST_TEST(Adagrad({param}, 0.25).options().lr == 0.25);
  BOOST_TEST(Adagrad({param}, 1).options().lr == 1);
  BOOST_TEST(Adagrad({param}, {}).options().lr == AdagradOptions{}.lr);
}

BOOST_AUTO_TEST_CASE(bad_options_are_refused) {
  const std::vector<Tensor> params = {make::ones({2}).requires_grad_()};
  auto make = [&](const AdagradOptions& options) { Adagrad optimizer(params, options); };
  BOOST_CHECK_EXCEPTION(make({.lr = -1}), Error, says("Adagrad", "lr", "-1"));
  BOOST_CHECK_EXCEPTION(make({.lr_decay = -1}), Error, says("Adagrad", "lr_decay", "-1"));
  BOOST_CHECK_EXCEPTION(make({.weight_decay = -1}), Error, says("Adagrad", "weight_decay", "-1"));
  BOOST_CHECK_EXCEPTION(make({.initial_accumulator_value = -1}), Error,
                        says("Adagrad", "initial_accumulator_value", "-1"));
  BOOST_CHECK_EXCEPTION(make({.eps = -1}), Error, says("Adagrad", "eps", "-1"));
}

BOOST_AUTO_TEST_SUITE_END()
