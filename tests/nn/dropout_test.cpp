#include "tendril/nn/dropout.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "tendril/tensor/raw.h"
#include "tests/errors.h"
#include "tests/make.h"
#include "tests/seed.h"

BOOST_AUTO_TEST_SUITE(dropout)

using tendril::DTypeError;
using tendril::Error;
using tendril::Generator;
using tendril::Tensor;
using tendril::nn::Dropout;
using tendril::testing::says;
using tendril::testing::test_seed;
namespace make = tendril::make;
namespace raw = tendril::raw;

BOOST_AUTO_TEST_CASE(elements_are_dropped_with_probability_p_and_the_others_scaled) {
  Generator generator(test_seed());
  for (double p : {0.1, 0.5, 0.75}) {
    Dropout layer(p, generator);
    const std::vector<double> y = layer(make::ones({100, 1000}, tendril::kFloat64)).to_vector<double>();
    const auto dropped = static_cast<double>(std::count(y.begin(), y.end(), 0.0));
    const auto kept = static_cast<double>(std::count(y.begin(), y.end(), 1 / (1 - p)));
    BOOST_TEST(dropped + kept == 1e5);
    // 6.5 standard deviations of the binomial distribution, which a seed exceeds with probability 1e-10.
    BOOST_TEST(std::abs(dropped - 1e5 * p) < 6.5 * std::sqrt(1e5 * p * (1 - p)));
  }
}

BOOST_AUTO_TEST_CASE(what_is_dropped_is_zero_however_large_it_was) {
  Generator generator(test_seed());
  for (const auto dtype : {tendril::kFloat32, tendril::kBFloat16, tendril::kFloat64}) {
    const double large = dtype == tendril::kFloat64 ? 1.5e308 : 3e38;
    const std::vector<double> y =
        Dropout(0.5, generator)(raw::full({1000}, large, dtype)).to(tendril::kFloat64).to_vector<double>();
    for (const double one : y) BOOST_TEST((one == 0 || std::isinf(one)));
    BOOST_TEST(std::count(y.begin(), y.end(), 0.0) > 400);
  }
}

BOOST_AUTO_TEST_CASE(neighbours_are_dropped_independently) {
  Generator generator(test_seed());
  const std::vector<double> y = Dropout(0.5, generator)(make::ones({100000})).to_vector<double>();
  int equal = 0;
  for (std::size_t i = 0; i + 1 < y.size(); ++i) equal += y[i] == y[i + 1];
  BOOST_TEST(std::abs(equal - 50000) < 6.5 * std::sqrt(25000.0));
}

BOOST_AUTO_TEST_CASE(the_gradient_goes_where_the_value_went) {
  Generator generator(test_seed());
  Tensor x = make::full({50}, 3.0).requires_grad_();
  const Tensor y = Dropout(0.6, generator)(x);
  y.sum().backward();
  BOOST_TEST(raw::equal(x.grad().mul(3.0), y.detach()));
}

BOOST_AUTO_TEST_CASE(a_generator_decides_what_is_dropped) {
  Generator first(test_seed()), second(test_seed());
  const Tensor x = make::ones({64});
  const Tensor a = Dropout(0.5, first)(x), b = Dropout(0.5, second)(x);
  BOOST_TEST(raw::equal(a, b));
  BOOST_TEST(!raw::equal(a, Dropout(0.5, first)(x)));
  Dropout layer(0.5, first);
  layer.set_generator(second);
  first.manual_seed(test_seed());
  second.manual_seed(test_seed());
  BOOST_TEST(raw::equal(layer(x), a));
  BOOST_TEST((first.state() == Generator::State{test_seed(), 0}));
}

BOOST_AUTO_TEST_CASE(evaluation_hands_through) {
  Dropout layer(0.5);
  layer.eval();
  const Tensor x = make::ones({4});
  BOOST_TEST(layer(x).is_same(x));
}

BOOST_AUTO_TEST_CASE(the_extremes_drop_nothing_and_all) {
  Tensor x = make::full({4}, 2.0).requires_grad_();
  BOOST_TEST(raw::equal(Dropout(0)(x).detach(), x.detach()));
  const Tensor y = Dropout(1)(x);
  y.sum().backward();
  BOOST_TEST(raw::equal(y.detach(), make::zeros({4})));
  BOOST_TEST(raw::equal(x.grad(), make::zeros({4})));
}

BOOST_AUTO_TEST_CASE(it_prints_its_probability) { BOOST_TEST(Dropout(0.6).to_string() == "Dropout(p=0.6)"); }

BOOST_AUTO_TEST_CASE(a_probability_outside_of_0_to_1_is_refused) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  BOOST_CHECK_EXCEPTION(Dropout(-0.1), Error, says("Dropout", "p", "-0.1", "[0, 1]"));
  BOOST_CHECK_EXCEPTION(Dropout(1.5), Error, says("Dropout", "p", "1.5", "[0, 1]"));
  BOOST_CHECK_EXCEPTION(Dropout{nan}, Error, says("Dropout", "p", "nan"));
  BOOST_CHECK_EXCEPTION(Dropout(0.5)(Tensor()), Error, says("Dropout", "undefined"));
  BOOST_CHECK_EXCEPTION(Dropout(0.5)(make::zeros({1}, tendril::kInt64)), DTypeError,
                        says("dropout", "int64", "floating"));
}

BOOST_AUTO_TEST_CASE(channels_are_dropped_as_a_whole) {
  Generator generator(test_seed());
  tendril::nn::Dropout2d layer(0.25, generator);
  const Tensor y = layer(make::ones({40, 50, 2, 3}, tendril::kFloat64));
  const std::vector<double> sums = y.sum({2, 3}).flatten().to_vector<double>();
  const auto dropped = static_cast<double>(std::count(sums.begin(), sums.end(), 0.0));
  for (const double sum : sums) BOOST_TEST((sum == 0 || std::abs(sum - 8) < 1e-12));
  BOOST_TEST(std::abs(dropped - 500) < 6.5 * std::sqrt(2000 * 0.25 * 0.75));
  layer.eval();
  const Tensor x = make::ones({1, 2, 3, 4});
  BOOST_TEST(layer(x).is_same(x));
  BOOST_CHECK_EXCEPTION(layer(make::ones({2, 3, 4})), tendril::ShapeError, says("Dropout2d", "[2, 3, 4]", "4"));
  BOOST_CHECK_EXCEPTION(tendril::nn::Dropout1d(1.5), Error, says("Dropout1d", "1.5"));
  BOOST_TEST((tendril::nn::Dropout1d()(make::ones({2, 3, 4})).dim() == 3 &&
              tendril::nn::Dropout3d()(make::ones({2, 3, 4, 1, 1})).dim() == 5));
  BOOST_TEST(tendril::nn::Dropout2d(0.25).to_string() == "Dropout2d(p=0.25)");
}

BOOST_AUTO_TEST_SUITE_END()
