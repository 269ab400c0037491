#include "tendril/nn/utils/clip_grad.h"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tests/errors.h"
#include "tests/golden.h"
#include "tests/make.h"

BOOST_AUTO_TEST_SUITE(clip_grad)

using tendril::Error;
using tendril::Tensor;
using tendril::nn::utils::clip_grad_norm_;
using tendril::nn::utils::clip_grad_value_;
using tendril::testing::difference;
using tendril::testing::says;
namespace make = tendril::make;

namespace {

const tendril::testing::Golden& golden() {
  static const tendril::testing::Golden file(TENDRIL_TEST_DATA "/clip_grad.txt");
  return file;
}

/// Parameters with golden gradients, and one without.
std::vector<Tensor> parameters(tendril::DType dtype) {
  std::vector<Tensor> all;
  for (int i = 0; i < 3; ++i) {
    const Tensor g = golden().get("grad" + std::to_string(i), dtype);
    all.push_back(make::zeros(g.sizes(), dtype).requires_grad_());
    all.back().set_grad(g);
  }
  all.push_back(make::zeros({4}, dtype).requires_grad_());
  return all;
}

void check_gradients(const std::vector<Tensor>& params, const std::string& name, double rtol) {
  for (std::size_t i = 0; i < 3; ++i) {
    const Tensor expected = golden().get(name + ".grad" + std::to_string(i));
    BOOST_TEST(difference(params[i].grad(), expected, rtol) == "", name << i);
  }
  BOOST_TEST(!params[3].grad().defined());
}

}  // namespace

BOOST_AUTO_TEST_CASE(norms_and_scaled_gradients_equal_pytorchs) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const tendril::DType dtype : {tendril::kFloat64, tendril::kFloat32}) {
    const double rtol = dtype == tendril::kFloat64 ? 1e-13 : 1e-5;
    for (const auto& [name, most, kind] : std::vector<std::tuple<std::string, double, double>>{
             {"two", 1.5, 2}, {"one", 3, 1}, {"three", 1, 3}, {"inf", 0.7, infinity}, {"above", 100, 2}}) {
      const std::vector<Tensor> params = parameters(dtype);
      const Tensor norm = clip_grad_norm_(params, most, {.norm_type = kind});
      BOOST_TEST((norm.dtype() == dtype));
      BOOST_TEST(difference(norm, golden().get(name + ".norm"), rtol) == "", name);
      check_gradients(params, name, rtol);
    }
  }
}

BOOST_AUTO_TEST_CASE(values_are_kept_within_bounds) {
  const std::vector<Tensor> params = parameters(tendril::kFloat64);
  clip_grad_value_(params, 0.8);
  check_gradients(params, "value", 0);
}

BOOST_AUTO_TEST_CASE(no_gradients_have_no_norm) {
  BOOST_TEST(clip_grad_norm_({}, 1).item<double>() == 0);
  BOOST_TEST(clip_grad_norm_({make::ones({2}).requires_grad_()}, 1).item<double>() == 0);
}

BOOST_AUTO_TEST_CASE(a_gradient_of_a_half_type_does_not_bound_the_norm_of_all) {
  for (const bool half_first : {true, false}) {
    const Tensor half = make::ones({1}, tendril::kFloat16).requires_grad_(), full = make::ones({1}).requires_grad_();
    half.set_grad(make::ones({1}, tendril::kFloat16));
    full.set_grad(make::full({1}, 1e5));
    const Tensor norm = clip_grad_norm_(half_first ? std::vector{half, full} : std::vector{full, half}, 1);
    BOOST_TEST(norm.dtype() == tendril::kFloat32);
    BOOST_TEST(norm.item<double>() == 1e5, boost::test_tools::tolerance(1e-6));
    BOOST_TEST(full.grad().item<double>() == 1, boost::test_tools::tolerance(1e-6));
    BOOST_TEST(half.grad().item<double>() == 1e-5, boost::test_tools::tolerance(1e-2));
  }
}

BOOST_AUTO_TEST_CASE(an_infinite_norm_is_an_error_where_one_is_asked_for) {
  const std::vector<Tensor> params = parameters(tendril::kFloat32);
  params[1].grad().select(0, 2).fill_(std::numeric_limits<double>::infinity());
  const std::vector<double> before = params[0].grad().to_vector<double>();
  BOOST_CHECK_EXCEPTION(clip_grad_norm_(params, 1, {.error_if_nonfinite = true}), Error,
                        says("clip_grad_norm_", "inf", "finite"));
  BOOST_TEST(params[0].grad().to_vector<double>() == before, boost::test_tools::per_element());
  BOOST_TEST(std::isinf(clip_grad_norm_(params, 1).item<double>()));
}

BOOST_AUTO_TEST_CASE(a_gradient_that_cannot_be_changed_is_refused_before_any_is) {
  const std::vector<Tensor> params = parameters(tendril::kFloat32);
  params[1].set_grad(make::ones({1}).expand(params[1].sizes()));
  const std::vector<double> before = params[0].grad().to_vector<double>();
  BOOST_CHECK_EXCEPTION(clip_grad_norm_(params, 1e-3), Error,
                        says("clip_grad_norm_", "parameters[1]", "expanded", "clone"));
  BOOST_CHECK_EXCEPTION(clip_grad_value_(params, 1e-3), Error,
                        says("clip_grad_value_", "parameters[1]", "expanded", "clone"));
  BOOST_TEST(params[0].grad().to_vector<double>() == before, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(what_makes_no_sense_is_refused) {
  BOOST_CHECK_EXCEPTION(clip_grad_norm_({}, -1), Error, says("clip_grad_norm_", "max_norm", "-1"));
  BOOST_CHECK_EXCEPTION(clip_grad_norm_({}, 1, {.norm_type = 0}), Error, says("norm_type", "0"));
  BOOST_CHECK_EXCEPTION(clip_grad_value_({}, -1), Error, says("clip_grad_value_", "clip_value", "-1"));
  BOOST_CHECK_EXCEPTION(clip_grad_norm_({Tensor()}, 1), Error, says("parameters[0]", "undefined"));
}

BOOST_AUTO_TEST_CASE(gradients_of_extreme_magnitude_are_scaled) {
  if (!tendril::default_device().is_cpu()) return;
  for (const double magnitude : {1e20, 3e38, 1e-25}) {
    const Tensor x = make::zeros({2}).requires_grad_(), y = make::zeros({1}).requires_grad_();
    x.set_grad(make::full({2}, magnitude));
    y.set_grad(make::full({1}, -magnitude));
    const double norm = std::sqrt(3.) * magnitude, max_norm = norm / 2;
    const Tensor returned = clip_grad_norm_({x, y}, max_norm);
    if (norm < 3.4e38) BOOST_TEST(std::abs(returned.item<double>() / norm - 1) < 1e-6);
    if (magnitude < 1) continue;  // beside which 1e-6 is large
    const double kept = magnitude * (max_norm / (norm + 1e-6));
    BOOST_TEST(std::abs(x.grad()[1].item<double>() / kept - 1) < 1e-5);
    BOOST_TEST(std::abs(y.grad()[0].item<double>() / kept + 1) < 1e-5);
  }
}

BOOST_AUTO_TEST_CASE(factor_is_not_rounded_to_a_half_type) {
  const Tensor x = make::zeros({1}, tendril::kFloat16).requires_grad_();
  x.set_grad(make::full({1}, 30000, tendril::kFloat16));
  clip_grad_norm_({x}, 0.003);  // by 1e-7, which float16 rounds to 1.2e-7
  BOOST_TEST(std::abs(x.grad()[0].item<double>() / 0.003 - 1) < 1e-3);
}

BOOST_AUTO_TEST_SUITE_END()
