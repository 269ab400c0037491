#include "tendril/nn/optim/lion.h"

#include <boost/test/unit_test.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/errors.h"
#include "tests/make.h"
#include "tests/nn/optim/golden_steps.h"

BOOST_AUTO_TEST_SUITE(lion)

using tendril::Error;
using tendril::Tensor;
using tendril::optim::Lion;
using tendril::optim::LionOptions;
using tendril::testing::GoldenSteps;
using tendril::testing::says;
namespace make = tendril::make;

BOOST_AUTO_TEST_CASE(twenty_steps_equal_pytorchs) {
  const std::vector<std::pair<std::string, LionOptions>> cases = {
      {"plain", {.lr = 0.1}},
      {"options", {.lr = 0.05, .beta1 = 0.5, .beta2 = 0.8, .weight_decay = 0.2}},
      {"maximize", {.lr = 0.1, .maximize = true}},
  };
  const auto check_states = [](const GoldenSteps& steps, const Lion& optimizer, const std::string& name) {
    for (std::size_t i = 0; i < 2; ++i) {
      const auto& state = optimizer.state(steps.params[i]);
      steps.check_state(name + ".exp_avg", i, state.exp_avg);
    }
  };
  tendril::testing::check_optimizer<Lion>("lion.txt", cases, LionOptions{.lr = 0.1}, check_states);
}

BOOST_AUTO_TEST_CASE(each_group_has_its_own_options) {
  tendril::testing::check_groups<Lion>("lion.txt", LionOptions{.lr = 0.1},
                                       LionOptions{.lr = 0.02, .weight_decay = 0.5});
}

BOOST_AUTO_TEST_CASE(a_rate_may_stand_for_the_options) {
  const Tensor param = make::ones({2}).requires_grad_();
  BOOST_TEST(Lion({param}, 0.25).options().lr == 0.25);
  BOOST_TEST(Lion({param}, 1).options().lr == 1);
  BOOST_TEST(Lion({param}, {}).options().lr == LionOptions{}.lr);
}

BOOST_AUTO_TEST_CASE(bad_options_are_refused) {
  const std::vector<Tensor> params = {make::ones({2}).requires_grad_()};
  auto make = [&](const LionOptions& options) { Lion optimizer(params, options); };
  BOOST_CHECK_EXCEPTION(make({.lr = -1}), Error, says("Lion", "lr", "-1"));
  BOOST_CHECK_EXCEPTION(make({.beta1 = 1}), Error, says("Lion", "beta1", "1"));
  BOOST_CHECK_EXCEPTION(make({.beta2 = 1}), Error, says("Lion", "beta2", "1"));
  BOOST_CHECK_EXCEPTION(make({.weight_decay = -1}), Error, says("Lion", "weight_decay", "-1"));
}

BOOST_AUTO_TEST_SUITE_END()
