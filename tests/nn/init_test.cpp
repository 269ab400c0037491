#include "tendril/nn/init.h"
#include "tendril/tensor/raw.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/errors.h"
#include "tests/golden.h"
#include "tests/make.h"
#include "tests/seed.h"

BOOST_AUTO_TEST_SUITE(init)

using tendril::DTypeError;
using tendril::Error;
using tendril::Generator;
using tendril::ShapeError;
using tendril::Tensor;
using tendril::testing::says;
namespace nn = tendril::nn;
namespace make = tendril::make;
namespace raw = tendril::raw;
using nn::init::Nonlinearity;
using tendril::testing::test_seed;

namespace {

constexpr int64_t kIn = 300, kOut = 400;  // 120,000 values: the moments have a standard deviation of 0.3%

struct Moments {
  double mean, stddev, largest;
};

Moments moments_of(const Tensor& x) {
  const std::vector<double> values = x.to_vector<double>();
  const auto n = static_cast<double>(values.size());
  double sum = 0, squares = 0, largest = 0;
  for (double v : values) {
    sum += v;
    squares += v * v;
    largest = std::max(largest, std::abs(v));
  }
  return {sum / n, std::sqrt(squares / n - (sum / n) * (sum / n)), largest};
}

/// A uniform distribution's largest value is just below sqrt(3) standard deviations, a normal one's well above.
void check_uniform(const Tensor& x, double stddev) {
  const Moments m = moments_of(x);
  BOOST_TEST(std::abs(m.mean) < 0.02 * stddev);
  BOOST_TEST(m.stddev == stddev, boost::test_tools::tolerance(0.01));
  BOOST_TEST(m.largest <= std::sqrt(3.0) * stddev * (1 + 1e-6));
}
void check_normal(const Tensor& x, double stddev) {
  const Moments m = moments_of(x);
  BOOST_TEST(std::abs(m.mean) < 0.02 * stddev);
  BOOST_TEST(m.stddev == stddev, boost::test_tools::tolerance(0.015));
  BOOST_TEST(m.largest > 3.5 * stddev);
}

}  // namespace

BOOST_AUTO_TEST_CASE(gains_and_fans_equal_pytorchs) {
  const tendril::testing::Golden golden(TENDRIL_TEST_DATA "/init.txt");
  auto gain = [&](const std::string& name) { return golden.get("gain." + name).item<double>(); };
  BOOST_TEST(nn::init::calculate_gain(Nonlinearity::linear) == gain("linear"));
  BOOST_TEST(nn::init::calculate_gain(Nonlinearity::sigmoid) == gain("sigmoid"));
  BOOST_TEST(nn::init::calculate_gain(Nonlinearity::tanh) == gain("tanh"));
  BOOST_TEST(nn::init::calculate_gain(Nonlinearity::relu) == gain("relu"));
  BOOST_TEST(nn::init::calculate_gain(Nonlinearity::leaky_relu) == gain("leaky_relu"));
  BOOST_TEST(nn::init::calculate_gain(Nonlinearity::leaky_relu, 0.2) == gain("leaky_relu_0.2"));
  BOOST_TEST(nn::init::calculate_gain(Nonlinearity::selu) == gain("selu"));
  auto check_fans = [&](const std::string& name, const tendril::Dims& sizes) {
    const nn::init::Fans fans = nn::init::calculate_fans(make::empty(sizes));
    BOOST_TEST((std::vector<int64_t>{fans.in, fans.out} == golden.get("fans." + name).to_vector<int64_t>()));
  };
  check_fans("matrix", {6, 3});
  check_fans("filters", {8, 4, 3, 5});
}

BOOST_AUTO_TEST_CASE(distributions_have_the_width_that_they_promise) {
  Generator generator(test_seed());
  const Tensor weight = make::empty({kOut, kIn});
  const double fans = kIn + kOut;
  check_uniform(nn::init::uniform_(weight, -0.5, 0.5, generator), 0.5 / std::sqrt(3.0));
  check_normal(nn::init::normal_(weight, 0, 0.3, generator), 0.3);
  check_uniform(nn::init::xavier_uniform_(weight, 2, generator), 2 * std::sqrt(2 / fans));
  check_normal(nn::init::xavier_normal_(weight, 2, generator), 2 * std::sqrt(2 / fans));
  check_uniform(nn::init::kaiming_uniform_(weight, {.generator = generator}), std::sqrt(2.0 / kIn));
  check_uniform(nn::init::kaiming_uniform_(weight, {.a = std::sqrt(5.0), .generator = generator}),
                std::sqrt(1.0 / 3 / kIn));
  check_normal(nn::init::kaiming_normal_(
                   weight, {.fan = nn::init::Fan::out, .nonlinearity = Nonlinearity::linear, .generator = generator}),
               std::sqrt(1.0 / kOut));
}

BOOST_AUTO_TEST_CASE(a_shift_moves_the_mean) {
  Generator generator(test_seed());
  const Tensor x = make::empty({100000}, tendril::kFloat64);
  BOOST_TEST(moments_of(nn::init::uniform_(x, 2, 4, generator)).mean == 3.0, boost::test_tools::tolerance(0.005));
  BOOST_TEST(moments_of(nn::init::normal_(x, -5, 1, generator)).mean == -5.0, boost::test_tools::tolerance(0.005));
}

BOOST_AUTO_TEST_CASE(parameters_are_written_without_being_recorded) {
  Tensor weight = make::empty({2, 3}).requires_grad_();
  const uint32_t before = weight.version();
  nn::init::constant_(weight, 2.5);
  BOOST_TEST((weight.to_vector<double>() == std::vector<double>(6, 2.5)));
  nn::init::ones_(weight);
  BOOST_TEST((weight.to_vector<double>() == std::vector<double>(6, 1.0)));
  nn::init::zeros_(weight);
  BOOST_TEST((weight.to_vector<double>() == std::vector<double>(6, 0.0)));
  nn::init::kaiming_uniform_(weight);
  BOOST_TEST(weight.is_leaf());
  BOOST_TEST(weight.version() == before + 4);
}

BOOST_AUTO_TEST_CASE(a_strided_tensor_is_filled_in_its_place) {
  const Tensor matrix = make::zeros({3, 4});
  nn::init::ones_(raw::select(matrix, 1, 2));
  Generator generator(test_seed());
  nn::init::uniform_(raw::select(matrix, 1, 0), 5, 6, generator);
  const std::vector<double> values = matrix.to_vector<double>();
  for (std::size_t row = 0; row < 3; ++row) {
    BOOST_TEST((values[4 * row] >= 5 && values[4 * row] < 6));
    BOOST_TEST(values[4 * row + 1] == 0);
    BOOST_TEST(values[4 * row + 2] == 1);
    BOOST_TEST(values[4 * row + 3] == 0);
  }
}

BOOST_AUTO_TEST_CASE(orthogonal_rows_or_columns_are_at_right_angles) {
  Generator generator(test_seed());
  for (const tendril::Dims& sizes : {tendril::Dims{5, 5}, tendril::Dims{3, 7}, tendril::Dims{9, 2, 2}}) {
    const Tensor weight = make::empty(sizes, tendril::kFloat64);
    nn::init::orthogonal_(weight, 2, generator);
    const int64_t rows = weight.size(0), columns = weight.numel() / rows;
    const Tensor matrix = raw::view(weight, {rows, columns}), turned = raw::transpose(matrix, 0, 1);
    const Tensor products = rows <= columns ? raw::matmul(matrix, turned) : raw::matmul(turned, matrix);
    const int64_t count = products.size(0);
    for (int64_t i = 0; i < count; ++i) {
      for (int64_t j = 0; j < count; ++j) {
        const double expected = i == j ? 4 : 0;
        BOOST_TEST(std::abs(raw::select(raw::select(products, 0, i), 0, j).item<double>() - expected) < 1e-13);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(sparse_columns_have_their_share_of_zeros) {
  Generator generator(test_seed());
  const Tensor weight = make::empty({10, 8}, tendril::kFloat64);  // float64: no drawn value is 0
  nn::init::sparse_(weight, 0.25, 1, generator);
  const std::vector<double> values = weight.to_vector<double>();
  bool alike = true;
  for (std::size_t column = 0; column < 8; ++column) {
    int zeros = 0;
    for (std::size_t row = 0; row < 10; ++row) {
      zeros += values[8 * row + column] == 0;
      alike = alike && (values[8 * row + column] == 0) == (values[8 * row] == 0);
    }
    BOOST_TEST(zeros == 3);
  }
  BOOST_TEST(!alike);  // each column has its own
}

BOOST_AUTO_TEST_CASE(a_cut_normal_distribution_stays_within_its_bounds) {
  Generator generator(test_seed());
  const Tensor x = make::empty({100'000}, tendril::kFloat64);
  nn::init::trunc_normal_(x, 1, 2, 0, 4, generator);
  double sum = 0, squares = 0, least = 9, most = -9;
  for (const double value : x.to_vector<double>()) {
    sum += value;
    squares += value * value;
    least = std::min(least, value);
    most = std::max(most, value);
  }
  BOOST_TEST(least >= 0);
  BOOST_TEST(least < 0.01);
  BOOST_TEST(most <= 4);
  BOOST_TEST(most > 3.99);
  // Mean and deviation of a truncated normal distribution by its formula
  const double mean = sum / 1e5, deviation = std::sqrt(squares / 1e5 - mean * mean);
  BOOST_TEST(std::abs(mean - 1.712546) < 6.5 * 1.058769 / std::sqrt(1e5));
  BOOST_TEST(std::abs(deviation - 1.058769) < 0.013);
  nn::init::trunc_normal_(x, 0, 1, 5, 6, generator);  // far out
  BOOST_TEST(x.min().item<double>() >= 5);
  BOOST_TEST(x.max().item<double>() < 6.0001);
}

BOOST_AUTO_TEST_CASE(tails_on_both_sides_are_drawn_from) {
  for (const double side : {1.0, -1.0}) {
    tendril::Generator generator(test_seed());
    const Tensor x = make::zeros({5000}, tendril::kFloat64);
    nn::init::trunc_normal_(x, 0, 1, side > 0 ? 9 : -10, side > 0 ? 10 : -9, generator);
    const std::vector<double> values = x.to_vector<double>();
    double mean = 0;
    for (const double value : values) {
      BOOST_TEST((side * value > 9 && side * value < 10));
      mean += side * value / 5000;
    }
    // The mean of a normal distribution between 9 and 10: phi(9) / (1 - Phi(9)), less the part above 10.
    BOOST_TEST(std::abs(mean - 9.1085) < 0.012);
  }
}

BOOST_AUTO_TEST_CASE(tensors_without_elements_are_left_alone) {
  BOOST_TEST(nn::init::kaiming_uniform_(make::zeros({5, 0})).numel() == 0);
  BOOST_TEST(nn::init::xavier_normal_(make::zeros({0, 0})).numel() == 0);
}

BOOST_AUTO_TEST_CASE(bad_input_is_refused) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor vector = make::ones({3}), matrix = make::ones({3, 3}), integers = make::zeros({3, 3}, tendril::kInt64);
  BOOST_CHECK_EXCEPTION(nn::init::kaiming_uniform_(vector), ShapeError,
                        says("calculate_fans", "[3]", "[out, in, ...]"));
  BOOST_CHECK_EXCEPTION(nn::init::xavier_normal_(vector), ShapeError, says("calculate_fans", "[3]"));
  BOOST_CHECK_EXCEPTION(nn::init::uniform_(integers), DTypeError, says("uniform_", "int64", "floating"));
  BOOST_CHECK_EXCEPTION(nn::init::zeros_(Tensor()), Error, says("zeros_", "undefined"));
  BOOST_CHECK_EXCEPTION(nn::init::uniform_(matrix, 1, 0), Error, says("uniform_", "[1, 0)"));
  BOOST_CHECK_EXCEPTION(nn::init::uniform_(matrix, nan, 0), Error, says("uniform_", "nan"));
  BOOST_CHECK_EXCEPTION(nn::init::normal_(matrix, 0, -1), Error, says("normal_", "stddev", "-1"));
  BOOST_CHECK_EXCEPTION(nn::init::normal_(matrix, nan), Error, says("normal_", "mean", "nan"));
  BOOST_CHECK_EXCEPTION(nn::init::orthogonal_(vector), ShapeError, says("orthogonal_", "[3]"));
  BOOST_CHECK_EXCEPTION(nn::init::sparse_(vector, 0.5), ShapeError, says("sparse_", "[3]", "matrix"));
  BOOST_CHECK_EXCEPTION(nn::init::sparse_(matrix, 1.5), Error, says("sparse_", "sparsity", "1.5"));
  BOOST_CHECK_EXCEPTION(nn::init::trunc_normal_(matrix, 0, 1, 2, 2), Error, says("trunc_normal_", "low", "2"));
  BOOST_CHECK_EXCEPTION(nn::init::trunc_normal_(matrix, 0, 1, 90, 91), Error, says("trunc_normal_", "90", "reaches"));
  BOOST_CHECK_EXCEPTION(nn::init::xavier_uniform_(matrix, -2), Error, says("xavier_uniform_", "gain", "-2"));
}

BOOST_AUTO_TEST_SUITE_END()
