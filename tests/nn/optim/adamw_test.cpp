#include "tendril/nn/optim/adam.h"

#include <boost/test/unit_test.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/errors.h"
#include "tests/make.h"
#include "tests/nn/optim/golden_steps.h"

BOOST_AUTO_TEST_SUITE(adamw)

using tendril::Error;
using tendril::Tensor;
using tendril::optim::AdamW;
using tendril::optim::AdamWOptions;
using tendril::testing::GoldenSteps;
using tendril::testing::says;
namespace make = tendril::make;

BOOST_AUTO_TEST_CASE(twenty_steps_equal_pytorchs) {
  const std::vector<std::pair<std::string, AdamWOptions>> cases = {
      {"plain", {.lr = 0.1}},
      {"betas", {.lr = 0.05, .beta1 = 0.5, .beta2 = 0.75, .eps = 1e-3, .weight_decay = 0}},
      {"decay", {.lr = 0.1, .weight_decay = 0.5}},
      {"amsgrad", {.lr = 0.1, .beta2 = 0.6, .amsgrad = true}},
      {"maximize", {.lr = 0.1, .weight_decay = 0.1, .maximize = true}},
  };
  const auto check_states = [](const GoldenSteps& steps, const AdamW& optimizer, const std::string& name) {
    for (std::size_t i = 0; i < 2; ++i) {
      const auto& state = optimizer.state(steps.params[i]);
      steps.check_state(name + ".exp_avg", i, state.exp_avg);
      steps.check_state(name + ".exp_avg_sq", i, state.exp_avg_sq);
      steps.check_state(name + ".max_exp_avg_sq", i, state.max_exp_avg_sq);
      BOOST_TEST(state.step == steps.steps - static_cast<int64_t>(i));  // the second parameter misses one
    }
  };
  tendril::testing::check_optimizer<AdamW>("adamw.txt", cases, AdamWOptions{.lr = 0.1}, check_states);
}

BOOST_AUTO_TEST_CASE(each_group_has_its_own_options) {
  tendril::testing::check_groups<AdamW>("adamw.txt", AdamWOptions{.lr = 0.1},
                                        AdamWOptions{.lr = 0.02, .beta1 = 0.8, .beta2 = 0.9, .weight_decay = 0.3});
}

BOOST_AUTO_TEST_CASE(a_rate_may_stand_for_the_options) {
  const Tensor param = make::ones({2}).requires_grad_();
  BOOST_TEST(AdamW({param}, 0.25).options().lr == 0.25);
  BOOST_TEST(AdamW({param}, 1).options().lr == 1);
  BOOST_TEST(AdamW({param}, {}).options().lr == AdamWOptions{}.lr);
}

BOOST_AUTO_TEST_CASE(bad_options_are_refused) {
  const std::vector<Tensor> params = {make::ones({2}).requires_grad_()};
  auto make = [&](const AdamWOptions& options) { AdamW optimizer(params, options); };
  BOOST_CHECK_EXCEPTION(make({.lr = -1}), Error, says("AdamW", "lr", "-1"));
  BOOST_CHECK_EXCEPTION(make({.beta1 = 1}), Error, says("AdamW", "beta1", "1", "[0, 1)"));
  BOOST_CHECK_EXCEPTION(make({.beta2 = -0.5}), Error, says("AdamW", "beta2", "-0.5"));
  BOOST_CHECK_EXCEPTION(make({.eps = -1}), Error, says("AdamW", "eps", "-1"));
  BOOST_CHECK_EXCEPTION(make({.weight_decay = -1}), Error, says("AdamW", "weight_decay", "-1"));
}

BOOST_AUTO_TEST_SUITE_END()
