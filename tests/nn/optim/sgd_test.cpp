#include "tendril/nn/optim/sgd.h"

#include <boost/test/unit_test.hpp>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tests/errors.h"
#include "tests/make.h"
#include "tests/nn/optim/golden_steps.h"

BOOST_AUTO_TEST_SUITE(sgd)

using tendril::Error;
using tendril::Tensor;
using tendril::optim::SGD;
using tendril::optim::SGDOptions;
using tendril::testing::GoldenSteps;
using tendril::testing::says;
namespace make = tendril::make;

namespace {

const std::vector<std::pair<std::string, SGDOptions>> kCases = {
    {"plain", {.lr = 0.1}},
    {"decay", {.lr = 0.1, .weight_decay = 0.3}},
    {"momentum", {.lr = 0.1, .momentum = 0.9}},
    {"dampening", {.lr = 0.1, .momentum = 0.9, .dampening = 0.25}},
    {"momentum_decay", {.lr = 0.05, .momentum = 0.8, .dampening = 0.5, .weight_decay = 0.1}},
    {"nesterov", {.lr = 0.1, .momentum = 0.9, .nesterov = true}},
    {"nesterov_decay", {.lr = 0.1, .momentum = 0.7, .weight_decay = 0.2, .nesterov = true}},
    {"maximize", {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.1, .maximize = true}},
    {"maximize_plain", {.lr = 0.1, .maximize = true}},
};

void check_states(const GoldenSteps& steps, const SGD& sgd, const std::string& name) {
  for (std::size_t i = 0; i < 2; ++i) {
    steps.check_state(name + ".momentum_buffer", i, sgd.state(steps.params[i]).momentum_buffer);
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(twenty_steps_equal_pytorchs) {
  for (tendril::DType dtype : {tendril::kFloat64, tendril::kFloat32}) {
    for (const auto& [name, options] : kCases) {
      GoldenSteps steps("sgd.txt", dtype);
      SGD sgd(steps.params, options);
      steps.run(sgd, name);
      check_states(steps, sgd, name);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_changed_learning_rate_holds_from_the_next_step) {
  GoldenSteps steps("sgd.txt", tendril::kFloat64);
  SGD sgd(steps.params, {.lr = 0.1, .momentum = 0.9});
  steps.run(sgd, "later_lr", [&](int64_t step) {
    if (step == 5) sgd.set_lr(0.01);
  });
  check_states(steps, sgd, "later_lr");
}

BOOST_AUTO_TEST_CASE(each_group_has_its_own_options) {
  GoldenSteps steps("sgd.txt", tendril::kFloat64);
  SGD sgd({{.params = {steps.params[0]}, .options = {.lr = 0.1, .momentum = 0.9}},
           {.params = {steps.params[1]}, .options = {.lr = 0.02, .weight_decay = 0.5}}});
  BOOST_TEST(sgd.num_groups() == 2u);
  BOOST_TEST(sgd.options(1).weight_decay == 0.5);
  steps.run(sgd, "groups");
  check_states(steps, sgd, "groups");
}

BOOST_AUTO_TEST_CASE(gradients_may_come_from_elsewhere) {
  GoldenSteps steps("sgd.txt", tendril::kFloat64);
  SGD sgd(steps.params, {.lr = 0.1, .momentum = 0.9});
  for (int64_t step = 0; step < steps.steps; ++step) {
    sgd.step({steps.gradient(0, step), steps.gradient(1, step)});
    steps.check_params("momentum", step);
  }
  BOOST_TEST(!steps.params[0].grad().defined());
}

BOOST_AUTO_TEST_CASE(bad_options_are_refused) {
  const std::vector<Tensor> params = {make::ones({2}).requires_grad_()};
  const double nan = std::numeric_limits<double>::quiet_NaN();
  auto make = [&](const SGDOptions& options) { SGD sgd(params, options); };
  BOOST_CHECK_EXCEPTION(make({.lr = -0.1}), Error, says("SGD", "lr", "-0.1", "0 or more"));
  BOOST_CHECK_EXCEPTION(make({.lr = nan}), Error, says("SGD", "lr", "nan"));
  BOOST_CHECK_EXCEPTION(make({.momentum = -1}), Error, says("SGD", "momentum", "-1"));
  BOOST_CHECK_EXCEPTION(make({.dampening = nan}), Error, says("SGD", "dampening", "nan", "finite"));
  BOOST_CHECK_EXCEPTION(make({.weight_decay = -1e-4}), Error, says("SGD", "weight_decay", "-0.0001"));
  BOOST_CHECK_EXCEPTION(make({.nesterov = true}), Error, says("SGD", "nesterov", "momentum"));
  BOOST_CHECK_EXCEPTION(make({.momentum = 0.9, .dampening = 0.1, .nesterov = true}), Error,
                        says("SGD", "nesterov", "dampening = 0.1"));
}

BOOST_AUTO_TEST_SUITE_END()
