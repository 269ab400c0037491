#pragma once

#include <boost/test/unit_test.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/golden.h"

namespace tendril::testing {

/// The two parameters and ten (or twenty) gradients of tests/nn/golden.py's optimizer(), in one dtype. Golden files
/// were made in float64, so float64 differs by the order of a few roundings a step; float32 by its own rounding,
/// amplified by at most twenty steps.
struct GoldenSteps {
  GoldenSteps(const std::string& file, DType of)
      : golden(std::string(TENDRIL_TEST_DATA "/") + file),
        dtype(of),
        rtol(of == kFloat64 ? 1e-13 : 2e-5),
        atol(of == kFloat64 ? 1e-14 : 4e-6) {
    for (int i = 0; i < 2; ++i) {
      const std::string suffix = std::to_string(i);
      params.push_back(golden.get("start" + suffix, dtype).requires_grad_());
      gradients.push_back(golden.get("grads" + suffix, dtype));
    }
    steps = gradients[0].size(0);
  }

  /// The gradient of parameter i in a step; the second parameter has none in the fourth.
  Tensor gradient(std::size_t i, int64_t step) const {
    return i == 1 && step == 3 ? Tensor() : raw::clone(raw::select(gradients[i], 0, step));
  }

  /// Steps and compares the parameters after each. `before(step)` may change the learning rate.
  template <class Optimizer, class Before>
  void run(Optimizer& optimizer, const std::string& name, const Before& before) {
    for (int64_t step = 0; step < steps; ++step) {
      before(step);
      for (std::size_t i = 0; i < 2; ++i) params[i].set_grad(gradient(i, step));
      optimizer.step();
      check_params(name, step);
    }
  }
  template <class Optimizer>
  void run(Optimizer& optimizer, const std::string& name) {
    run(optimizer, name, [](int64_t) {});
  }

  void check_params(const std::string& name, int64_t step) const {
    for (std::size_t i = 0; i < 2; ++i) {
      BOOST_TEST_CONTEXT(name << ", step " << step << ", parameter " << i) {
        const Tensor expected = golden.get(name + ".params" + std::to_string(i));
        BOOST_TEST(difference(params[i], raw::select(expected, 0, step), rtol, atol) == "");
      }
    }
  }
  /// `state` is a tensor of parameter i's state; it is undefined where PyTorch has none.
  void check_state(const std::string& name, std::size_t i, const Tensor& state) const {
    BOOST_TEST_CONTEXT(name << i) {
      const std::string key = name + std::to_string(i);
      BOOST_REQUIRE(state.defined() == golden.has(key));
      if (state.defined()) BOOST_TEST(difference(state, golden.get(key), rtol, atol) == "");
    }
  }

  Golden golden;
  DType dtype;
  int64_t steps = 0;
  double rtol, atol;
  std::vector<Tensor> params, gradients;
};

/// All cases of a golden file whose options are a list; then "later_lr", in float64 only. `check_states(steps,
/// optimizer, name)` compares what is kept.
template <class Optimizer, class Options, class States>
void check_optimizer(const std::string& file, const std::vector<std::pair<std::string, Options>>& cases,
                     const Options& later, const States& check_states) {
  for (const DType dtype : {kFloat64, kFloat32}) {
    for (const auto& [name, options] : cases) {
      GoldenSteps steps(file, dtype);
      Optimizer optimizer(steps.params, options);
      steps.run(optimizer, name);
      check_states(steps, optimizer, name);
    }
  }
  GoldenSteps steps(file, kFloat64);
  Optimizer optimizer(steps.params, later);
  steps.run(optimizer, "later_lr", [&](int64_t step) {
    if (step == 5) optimizer.set_lr(0.01);
  });
  check_states(steps, optimizer, "later_lr");
}

/// The case "groups": options of each parameter's own.
template <class Optimizer, class Options>
void check_groups(const std::string& file, const Options& first, const Options& second) {
  GoldenSteps steps(file, kFloat64);
  Optimizer optimizer({{.params = {steps.params[0]}, .options = first}});
  optimizer.add_param_group({.params = {steps.params[1]}, .options = second});
  steps.run(optimizer, "groups");
}

}  // namespace tendril::testing
