#include <boost/test/unit_test.hpp>
#include <limits>
#include <string>
#include <vector>

#include "tendril/nn/optim/adam.h"
#include "tendril/nn/optim/sgd.h"
#include "tendril/tensor/raw.h"
#include "tests/errors.h"
#include "tests/make.h"

BOOST_AUTO_TEST_SUITE(optimizer_state_dict)

using tendril::Error;
using tendril::LoadReport;
using tendril::StateDict;
using tendril::Tensor;
using tendril::optim::Adam;
using tendril::optim::SGD;
using tendril::testing::says;
namespace make = tendril::make;
namespace raw = tendril::raw;

namespace {

std::string names(const StateDict& dict) {
  std::string all;
  for (const auto& [name, tensor] : dict) all += name + " ";
  return all;
}

/// Two parameters, the second in float64, and gradients that differ by step.
struct Parameters {
  std::vector<Tensor> all = {make::ones({2, 3}).requires_grad_(),
                             make::full({4}, 2, tendril::kFloat64).requires_grad_()};

  std::vector<Tensor> gradients(int step) const {
    return {make::full({2, 3}, 0.1 * step + 0.3), make::full({4}, 0.7 - step, tendril::kFloat64)};
  }
  void copy_from(const Parameters& other) {
    for (std::size_t i = 0; i < all.size(); ++i) raw::copy_(all[i], other.all[i]);
  }
  bool equal(const Parameters& other) const {
    return raw::equal(all[0], other.all[0]) && raw::equal(all[1], other.all[1]);
  }
};

/// Steps, saves, steps on; another optimizer that loads what was saved ends with the same bits.
template <class Optimizer>
void check_resumes(const typename Optimizer::Options& options) {
  Parameters first, second;
  Optimizer saved(first.all, options), resumed(second.all);  // with other options, which are overwritten
  for (int step = 0; step < 3; ++step) saved.step(first.gradients(step));
  const StateDict dict = saved.state_dict().clone();
  second.copy_from(first);
  for (int step = 3; step < 6; ++step) saved.step(first.gradients(step));
  BOOST_TEST(!first.equal(second));
  resumed.load_state_dict(dict);
  for (int step = 3; step < 6; ++step) resumed.step(second.gradients(step));
  BOOST_TEST(first.equal(second));
  BOOST_TEST(names(resumed.state_dict()) == names(saved.state_dict()));
  for (const auto& [name, tensor] : saved.state_dict())
    BOOST_TEST(raw::equal(tensor, resumed.state_dict().at(name)), name);
}

}  // namespace

BOOST_AUTO_TEST_CASE(an_optimizer_that_loads_anothers_state_steps_like_it) {
  check_resumes<SGD>({.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01, .nesterov = true});
  check_resumes<SGD>({.lr = 0.1, .momentum = 0.8, .dampening = 0.3, .maximize = true});
  check_resumes<SGD>({.lr = 0.3});
  check_resumes<Adam>({.lr = 0.1, .beta1 = 0.8, .eps = 1e-4, .weight_decay = 0.02});
  check_resumes<Adam>({.lr = 0.1, .beta2 = 0.99, .amsgrad = true, .maximize = true});
}

BOOST_AUTO_TEST_CASE(names_are_pytorchs_with_dots) {
  const Parameters parameters;
  SGD sgd({{.params = {parameters.all[0]}, .options = {.momentum = 0.9}}, {.params = {parameters.all[1]}}});
  BOOST_TEST(names(sgd.state_dict()) ==
             "param_groups.0.lr param_groups.0.momentum param_groups.0.dampening param_groups.0.weight_decay "
             "param_groups.0.nesterov param_groups.0.maximize param_groups.0.params "
             "param_groups.1.lr param_groups.1.momentum param_groups.1.dampening param_groups.1.weight_decay "
             "param_groups.1.nesterov param_groups.1.maximize param_groups.1.params ");
  sgd.step(parameters.gradients(0));
  BOOST_TEST(names(sgd.state_dict()).starts_with("state.0.momentum_buffer param_groups.0.lr "));
  Adam adam(parameters.all, {.beta1 = 0.5});
  adam.step({parameters.gradients(0)[0], Tensor()});
  const StateDict dict = adam.state_dict();
  BOOST_TEST(
      names(dict).starts_with("state.0.step state.0.exp_avg state.0.exp_avg_sq state.1.step param_groups.0.lr "
                              "param_groups.0.betas.0 "));
  BOOST_TEST(dict.at("state.0.step").item<int64_t>() == 1);
  BOOST_TEST(dict.at("param_groups.0.betas.0").item<double>() == 0.5);
  BOOST_TEST(raw::equal(dict.at("param_groups.0.params"), raw::from_data(std::vector<int64_t>{0, 1}, {2})));
}

BOOST_AUTO_TEST_CASE(all_that_does_not_fit_is_in_one_error_and_nothing_is_loaded) {
  const Parameters parameters;
  Adam adam(parameters.all, {.lr = 0.25});
  adam.step(parameters.gradients(0));
  StateDict wrong;
  for (const auto& [name, tensor] : adam.state_dict()) {
    if (name == "state.0.exp_avg") {
      wrong.insert(name, raw::ones({3, 2}));
    } else if (name == "param_groups.0.lr") {
      wrong.insert(name, -1.0);
    } else if (name == "param_groups.0.params") {
      wrong.insert(name, raw::from_data(std::vector<int64_t>{0, 2}, {2}));
    } else if (name != "param_groups.0.eps" && name != "state.1.exp_avg_sq") {
      wrong.insert(name, tensor);
    }
  }
  wrong.insert("param_groups.1.lr", 0.1);
  BOOST_CHECK_EXCEPTION(adam.load_state_dict(wrong), Error,
                        says("Adam::load_state_dict", "missing: param_groups.0.eps", "unexpected: param_groups.1.lr",
                             "state.0.exp_avg: got shape [3, 2], expected [2, 3]", "param_groups.0: Adam: lr: got -1",
                             "param_groups.0.params: got parameter 2, expected 1", "state.1: lacks a tensor"));
  BOOST_TEST(adam.lr() == 0.25);
  BOOST_TEST(adam.state(parameters.all[0]).step == 1);
  for (const int64_t step : {int64_t{-1}, std::numeric_limits<int64_t>::max()}) {
    StateDict dict = adam.state_dict().clone();
    raw::fill_(dict.at("state.1.step"), step);
    BOOST_CHECK_EXCEPTION(adam.load_state_dict(dict), Error,
                          says("state.1.step: got " + std::to_string(step), "from 0 to 2^53"));
  }
  SGD sgd(parameters.all, {.momentum = 0.9});
  BOOST_CHECK_EXCEPTION(sgd.load_state_dict(adam.state_dict()), Error,
                        says("SGD::load_state_dict", "param_groups.0.momentum", "unexpected: state.0.step"));
}

BOOST_AUTO_TEST_CASE(what_is_loaded_belongs_to_the_optimizer_alone) {
  Parameters parameters;
  SGD saved(parameters.all, {.momentum = 0.9}), loaded(parameters.all);
  saved.step(parameters.gradients(0));
  const StateDict dict = saved.state_dict(), before = dict.clone();
  loaded.load_state_dict(dict);
  loaded.step(parameters.gradients(1));
  BOOST_TEST(raw::equal(dict.at("state.0.momentum_buffer"), before.at("state.0.momentum_buffer")));
}

BOOST_AUTO_TEST_CASE(a_state_that_was_not_there_is_forgotten) {
  const Parameters parameters;
  Adam stepped(parameters.all), fresh(parameters.all);
  stepped.step(parameters.gradients(0));
  stepped.load_state_dict(fresh.state_dict(), {.check_only = true});
  BOOST_TEST(stepped.state(parameters.all[0]).step == 1);
  stepped.load_state_dict(fresh.state_dict());
  BOOST_TEST(stepped.state(parameters.all[0]).step == 0);
  BOOST_TEST(!stepped.state(parameters.all[0]).exp_avg.defined());
}

BOOST_AUTO_TEST_CASE(without_strictness_options_that_are_missing_stay) {
  const Parameters parameters;
  SGD sgd(parameters.all, {.lr = 0.5, .momentum = 0.9});
  StateDict dict;
  dict.insert("param_groups.0.lr", 0.125);
  dict.insert("param_groups.0.foreach", false);
  const LoadReport report = sgd.load_state_dict(dict, {.strict = false});
  BOOST_TEST(sgd.lr() == 0.125);
  BOOST_TEST(sgd.options().momentum == 0.9);
  BOOST_TEST(report.unexpected == std::vector<std::string>{"param_groups.0.foreach"}, boost::test_tools::per_element());
  BOOST_TEST(report.missing.size() == 6u);
}

BOOST_AUTO_TEST_SUITE_END()
