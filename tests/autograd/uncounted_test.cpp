// Elements that do not count, by a mask, a weight or a probability of 0, may be infinite or NaN.
#include <boost/test/unit_test.hpp>
#include <cmath>

#include "tendril/autograd/backward.h"
#include "tendril/autograd/ops/dropout.h"
#include "tendril/autograd/ops/loss.h"
#include "tendril/autograd/ops/loss_pairs.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/tensor/creation.h"
#include "tests/autograd/raises.h"
#include "tests/seed.h"

BOOST_AUTO_TEST_SUITE(uncounted)

using namespace tendril;

namespace {

const double kInfinity = HUGE_VAL, kNaN = std::nan("");

bool all_finite(const Tensor& x) { return x.isfinite().all().item<bool>(); }

/// Whether loss and gradient of x are finite.
bool finite(const Tensor& loss, const Tensor& x) {
  loss.sum().backward();
  return all_finite(loss) && all_finite(x.grad());
}

}  // namespace

BOOST_AUTO_TEST_CASE(cross_entropy_ignores_impossible_classes_of_probability_zero) {
  for (const DType dtype : {kFloat32, kFloat64}) {
    const Tensor x = tensor({{1., -kInfinity, 2.}}, {.dtype = dtype, .requires_grad = true});
    const Tensor target = tensor({{0.25, 0., 0.75}}, {.dtype = dtype});
    const Tensor loss = cross_entropy(x, target);
    const Tensor possible = tensor({{1., 2.}}, {.dtype = dtype});
    const Tensor expected = cross_entropy(possible, tensor({{0.25, 0.75}}, {.dtype = dtype}));
    BOOST_TEST(std::abs(loss.item<double>() - expected.item<double>()) < 1e-6);
    BOOST_TEST(finite(loss, x));
  }
}

BOOST_AUTO_TEST_CASE(cross_entropy_ignores_impossible_classes_of_weight_zero) {
  const Tensor weight = tensor({1., 0., 2.}, {.dtype = kFloat64});
  const Tensor x = tensor({{1., -kInfinity, 2.}, {3., -kInfinity, 1.}}, {.dtype = kFloat64, .requires_grad = true});
  const Tensor smooth = cross_entropy(x, tensor({0, 2}), {.weight = weight, .label_smoothing = 0.1});
  BOOST_TEST(finite(smooth, x), smooth);
  x.zero_grad();
  const Tensor target_of_weight_0 = cross_entropy(x, tensor({0, 1}), {.weight = weight});
  BOOST_TEST(finite(target_of_weight_0, x), target_of_weight_0);
}

BOOST_AUTO_TEST_CASE(kl_div_ignores_probabilities_of_zero) {
  const Tensor x = tensor({std::log(0.5), -kInfinity, std::log(0.5)}, {.dtype = kFloat64, .requires_grad = true});
  const Tensor target = tensor({0.5, 0., 0.5}, {.dtype = kFloat64});
  const Tensor loss = kl_div(x, target, {.reduction = LossReduction::sum});
  BOOST_TEST(std::abs(loss.item<double>()) < 1e-15);
  BOOST_TEST(finite(loss, x));
  x.zero_grad();
  const Tensor of_logs = kl_div(x, target.log(), {.reduction = LossReduction::sum, .log_target = true});
  BOOST_TEST(std::abs(of_logs.item<double>()) < 1e-15);
  BOOST_TEST(finite(of_logs, x));
}

BOOST_AUTO_TEST_CASE(elements_of_weight_zero_do_not_count) {
  const Tensor x = tensor({0.5, kNaN, kInfinity}, {.dtype = kFloat64, .requires_grad = true});
  const Tensor target = tensor({1., 0., 0.}, {.dtype = kFloat64}), weight = tensor({1., 0., 0.}, {.dtype = kFloat64});
  const Tensor loss = binary_cross_entropy_with_logits(x, target, {.weight = weight});
  BOOST_TEST(finite(loss, x));
  const Tensor y = tensor({0.5, kNaN, 2.}, {.dtype = kFloat64, .requires_grad = true});
  BOOST_TEST(finite(binary_cross_entropy(y, target, {.weight = weight}), y));
}

BOOST_AUTO_TEST_CASE(dropped_elements_are_zero) {
  for (const DType dtype : {kFloat64, kFloat32, kFloat16, kBFloat16}) {
    Generator generator(tendril::testing::test_seed());
    const Tensor x = zeros({1000}, {.dtype = dtype, .requires_grad = false}).fill_(kInfinity).requires_grad_();
    const Tensor y = dropout(x, 0.5, generator).detach();
    BOOST_TEST(y.eq(0).logical_or(y.eq(kInfinity)).all().item<bool>(), dtype);
    BOOST_TEST(y.eq(0).any().item<bool>());
    BOOST_TEST(y.eq(kInfinity).any().item<bool>());
    BOOST_TEST(dropout(x, 1, generator).detach().eq(0).all().item<bool>());
  }
}

BOOST_AUTO_TEST_SUITE_END()
