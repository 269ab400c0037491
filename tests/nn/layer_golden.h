#pragma once

#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

#include "tests/golden.h"

namespace tendril::testing {

/// How far a layer may be from its float64 golden value: float64 differs by the last bits of exp and tanh and by the
/// order of short sums, float32 by its own rounding (epsilon 1.2e-7) through a few operations.
struct Tolerance {
  /// `factor`: of a layer that is made of many.
  explicit Tolerance(DType dtype, double factor = 1)
      : rtol(factor * (dtype == kFloat64 ? 1e-12 : 5e-6)), atol(factor * (dtype == kFloat64 ? 1e-13 : 2e-6)) {}
  double rtol, atol;
};

/// Compares forward's result and, after backward, the gradients of `leaves` ("x", "weight", ...) with golden.py's
/// value_and_gradients(name).
template <class Forward>
void check_layer(const Golden& golden, const std::string& name, DType dtype, const Forward& forward,
                 const std::vector<std::pair<std::string, Tensor>>& leaves, double factor = 1) {
  BOOST_TEST_CONTEXT(name << " in " << name_of(dtype)) {
    const Tolerance close(dtype, factor);
    for (const auto& [key, leaf] : leaves) Tensor(leaf).zero_grad();
    const Tensor y = forward();
    BOOST_TEST((y.dtype() == dtype));
    BOOST_TEST(difference(y, golden.get(name + ".y"), close.rtol, close.atol) == "");
    y.backward(golden.get(name + ".g", dtype));
    for (const auto& [key, leaf] : leaves) {
      BOOST_TEST_CONTEXT("gradient of " << key) {
        BOOST_TEST(difference(leaf.grad(), golden.get(name + ".d" + key), close.rtol, close.atol) == "");
      }
    }
  }
}

}  // namespace tendril::testing
