#include "tendril/nn/optim/adamax.h"

#include <boost/test/unit_test.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/errors.h"
#include "tests/make.h"
#include "tests/nn/optim/golden_steps.h"

BOOST_AUTO_TEST_SUITE(adamax)

using tendril::Error;
using tendril::Tensor;
using tendril::optim::Adamax;
using tendril::optim::AdamaxOptions;
using tendril::testing::GoldenSteps;
using tendril::testing::says;
namespace make = tendril::make;

BOOST_AUTO_TEST_CASE(twenty_steps_equal_pytorchs) {
  const std::vector<std::pair<std::string, AdamaxOptions>> cases = {
      {"plain", {.lr = 0.1}},
      {"options", {.lr = 0.1, .beta1 = 0.5, .beta2 = 0.8, .eps = 1e-2, .weight_decay = 0.2}},
      {"maximize", {.lr = 0.1, .maximize = true}},
  };
  const auto check_states = [](const GoldenSteps& steps, const Adamax& optimizer, const std::string& name) {
    for (std::size_t i = 0; i < 2; ++i) {
      const auto& state = optimizer.state(steps.params[i]);
      steps.check_state(name + ".exp_avg", i, state.exp_avg);
      steps.check_state(name + ".exp_inf", i, state.exp_inf);
      BOOST_TEST(state.step == steps.steps - static_cast<int64_t>(i));  // the second parameter misses one
    }
  };
  tendril::testing::check_optimizer<Adamax>("adamax.txt", cases, AdamaxOptions{.lr = 0.1}, check_states);
}

BOOST_AUTO_TEST_CASE(each_group_has_its_own_options) {
  tendril::testing::check_groups<Adamax>("adamax.txt", AdamaxOptions{.lr = 0.1},
                                         AdamaxOptions{.lr = 0.02, .beta1 = 0.7, .beta2 = 0.9});
}

BOOST_AUTO_TEST_CASE(a_rate_may_stand_for_the_options) {
  const Tensor param = make::ones({2}).requires_grad_();
  BOOST_TEST(Adamax({param}, 0.25).options().lr == 0.25);
  BOOST_TEST(Adamax({param}, 1).options().lr == 1);
  BOOST_TEST(Adamax({param}, {}).options().lr == AdamaxOptions{}.lr);
}

BOOST_AUTO_TEST_CASE(bad_options_are_refused) {
  const std::vector<Tensor> params = {make::ones({2}).requires_grad_()};
  auto make = [&](const AdamaxOptions& options) { Adamax optimizer(params, options); };
  BOOST_CHECK_EXCEPTION(make({.lr = -1}), Error, says("Adamax", "lr", "-1"));
  BOOST_CHECK_EXCEPTION(make({.beta1 = 1}), Error, says("Adamax", "beta1", "1"));
  BOOST_CHECK_EXCEPTION(make({.beta2 = 1.5}), Error, says("Adamax", "beta2", "1.5"));
  BOOST_CHECK_EXCEPTION(make({.eps = -1}), Error, says("Adamax", "eps", "-1"));
  BOOST_CHECK_EXCEPTION(make({.weight_decay = -1}), Error, says("Adamax", "weight_decay", "-1"));
}

BOOST_AUTO_TEST_SUITE_END()
