#include "tendril/nn/optim/adam.h"

#include <boost/test/unit_test.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/errors.h"
#include "tests/make.h"
#include "tests/nn/optim/golden_steps.h"

BOOST_AUTO_TEST_SUITE(adam)

using tendril::Error;
using tendril::Tensor;
using tendril::optim::Adam;
using tendril::optim::AdamOptions;
using tendril::testing::GoldenSteps;
using tendril::testing::says;
namespace make = tendril::make;

namespace {

const std::vector<std::pair<std::string, AdamOptions>> kCases = {
    {"plain", {.lr = 0.1}},
    {"betas", {.lr = 0.05, .beta1 = 0.5, .beta2 = 0.75, .eps = 1e-3}},
    {"no_betas", {.lr = 0.05, .beta1 = 0, .beta2 = 0}},
    {"decay", {.lr = 0.1, .weight_decay = 0.3}},
    {"amsgrad", {.lr = 0.1, .beta2 = 0.6, .amsgrad = true}},
    {"amsgrad_decay", {.lr = 0.1, .beta2 = 0.6, .weight_decay = 0.1, .amsgrad = true}},
    {"maximize", {.lr = 0.1, .weight_decay = 0.1, .maximize = true}},
};

void check_states(const GoldenSteps& steps, const Adam& adam, const std::string& name) {
  for (std::size_t i = 0; i < 2; ++i) {
    const tendril::optim::AdamState& state = adam.state(steps.params[i]);
    steps.check_state(name + ".exp_avg", i, state.exp_avg);
    steps.check_state(name + ".exp_avg_sq", i, state.exp_avg_sq);
    steps.check_state(name + ".max_exp_avg_sq", i, state.max_exp_avg_sq);
    BOOST_TEST(state.step == steps.steps - static_cast<int64_t>(i));  // the second parameter misses one
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(twenty_steps_equal_pytorchs) {
  for (tendril::DType dtype : {tendril::kFloat64, tendril::kFloat32}) {
    for (const auto& [name, options] : kCases) {
      GoldenSteps steps("adam.txt", dtype);
      Adam adam(steps.params, options);
      steps.run(adam, name);
      check_states(steps, adam, name);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_changed_learning_rate_holds_from_the_next_step) {
  GoldenSteps steps("adam.txt", tendril::kFloat64);
  Adam adam(steps.params, {.lr = 0.1});
  steps.run(adam, "later_lr", [&](int64_t step) {
    if (step == 5) adam.set_lr(0.01);
  });
  check_states(steps, adam, "later_lr");
}

BOOST_AUTO_TEST_CASE(each_group_has_its_own_options) {
  GoldenSteps steps("adam.txt", tendril::kFloat64);
  Adam adam({{.params = {steps.params[0]}, .options = {.lr = 0.1}},
             {.params = {steps.params[1]}, .options = {.lr = 0.02, .beta1 = 0.8, .beta2 = 0.9, .amsgrad = true}}});
  steps.run(adam, "groups");
  check_states(steps, adam, "groups");
}

BOOST_AUTO_TEST_CASE(gradients_may_come_from_elsewhere) {
  GoldenSteps steps("adam.txt", tendril::kFloat64);
  Adam adam(steps.params, {.lr = 0.1});
  for (int64_t step = 0; step < steps.steps; ++step) {
    adam.step({steps.gradient(0, step), steps.gradient(1, step)});
    steps.check_params("plain", step);
  }
}

BOOST_AUTO_TEST_CASE(state_is_made_in_the_first_step) {
  const Tensor param = make::ones({2}).requires_grad_();
  Adam adam({param}, {.lr = 0.1});
  BOOST_TEST(adam.state(param).step == 0);
  BOOST_TEST(!adam.state(param).exp_avg.defined());
  adam.step({make::ones({2})});
  BOOST_TEST(adam.state(param).step == 1);
  BOOST_TEST((adam.state(param).exp_avg.sizes() == tendril::Dims{2}));
}

BOOST_AUTO_TEST_CASE(bad_options_are_refused) {
  const std::vector<Tensor> params = {make::ones({2}).requires_grad_()};
  auto make = [&](const AdamOptions& options) { Adam adam(params, options); };
  BOOST_CHECK_EXCEPTION(make({.lr = -1}), Error, says("Adam", "lr", "-1", "0 or more"));
  BOOST_CHECK_EXCEPTION(make({.beta1 = 1}), Error, says("Adam", "beta1", "1", "[0, 1)"));
  BOOST_CHECK_EXCEPTION(make({.beta2 = -0.5}), Error, says("Adam", "beta2", "-0.5", "[0, 1)"));
  BOOST_CHECK_EXCEPTION(make({.eps = -1e-8}), Error, says("Adam", "eps", "-1e-08"));
  BOOST_CHECK_EXCEPTION(make({.weight_decay = -1}), Error, says("Adam", "weight_decay", "-1"));
}

BOOST_AUTO_TEST_SUITE_END()
