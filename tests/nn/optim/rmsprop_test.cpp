#include "tendril/nn/optim/rmsprop.h"

#include <boost/test/unit_test.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/errors.h"
#include "tests/make.h"
#include "tests/nn/optim/golden_steps.h"

BOOST_AUTO_TEST_SUITE(rmsprop)

using tendril::Error;
using tendril::Tensor;
using tendril::optim::RMSprop;
using tendril::optim::RMSpropOptions;
using tendril::testing::GoldenSteps;
using tendril::testing::says;
namespace make = tendril::make;

BOOST_AUTO_TEST_CASE(twenty_steps_equal_pytorchs) {
  const std::vector<std::pair<std::string, RMSpropOptions>> cases = {
      {"plain", {.lr = 0.1}},
      {"options", {.lr = 0.05, .alpha = 0.8, .eps = 1e-3, .weight_decay = 0.2}},
      {"momentum", {.lr = 0.02, .momentum = 0.9}},
      {"centered", {.lr = 0.02, .alpha = 0.9, .eps = 0.1, .centered = true}},
      {"all",
       {.lr = 0.02,
        .alpha = 0.9,
        .eps = 0.1,
        .weight_decay = 0.1,
        .momentum = 0.8,
        .centered = true,
        .maximize = true}},
  };
  const auto check_states = [](const GoldenSteps& steps, const RMSprop& optimizer, const std::string& name) {
    for (std::size_t i = 0; i < 2; ++i) {
      const auto& state = optimizer.state(steps.params[i]);
      steps.check_state(name + ".square_avg", i, state.square_avg);
      steps.check_state(name + ".momentum_buffer", i, state.momentum_buffer);
      steps.check_state(name + ".grad_avg", i, state.grad_avg);
      BOOST_TEST(state.step == steps.steps - static_cast<int64_t>(i));  // the second parameter misses one
    }
  };
  tendril::testing::check_optimizer<RMSprop>("rmsprop.txt", cases, RMSpropOptions{.lr = 0.1, .momentum = 0.5},
                                             check_states);
}

BOOST_AUTO_TEST_CASE(each_group_has_its_own_options) {
  tendril::testing::check_groups<RMSprop>("rmsprop.txt", RMSpropOptions{.lr = 0.1},
                                          RMSpropOptions{.lr = 0.02, .momentum = 0.8});
}

BOOST_AUTO_TEST_CASE(a_rate_may_stand_for_the_options) {
  const Tensor param = make::ones({2}).requires_grad_();
  BOOST_TEST(RMSprop({param}, 0.25).options().lr == 0.25);
  BOOST_TEST(RMSprop({param}, 1).options().lr == 1);
  BOOST_TEST(RMSprop({param}, {}).options().lr == RMSpropOptions{}.lr);
}

BOOST_AUTO_TEST_CASE(bad_options_are_refused) {
  const std::vector<Tensor> params = {make::ones({2}).requires_grad_()};
  auto make = [&](const RMSpropOptions& options) { RMSprop optimizer(params, options); };
  BOOST_CHECK_EXCEPTION(make({.lr = -1}), Error, says("RMSprop", "lr", "-1"));
  BOOST_CHECK_EXCEPTION(make({.alpha = 2}), Error, says("RMSprop", "alpha", "2", "[0, 1]"));
  BOOST_CHECK_EXCEPTION(make({.eps = -1}), Error, says("RMSprop", "eps", "-1"));
  BOOST_CHECK_EXCEPTION(make({.weight_decay = -1}), Error, says("RMSprop", "weight_decay", "-1"));
  BOOST_CHECK_EXCEPTION(make({.momentum = -1}), Error, says("RMSprop", "momentum", "-1"));
}

BOOST_AUTO_TEST_SUITE_END()
