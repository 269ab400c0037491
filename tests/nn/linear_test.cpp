#include "tendril/nn/linear.h"
#include "tendril/tensor/raw.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <vector>

#include "tests/errors.h"
#include "tests/make.h"
#include "tests/nn/layer_golden.h"
#include "tests/seed.h"

BOOST_AUTO_TEST_SUITE(linear)

using tendril::DTypeError;
using tendril::Error;
using tendril::Generator;
using tendril::ShapeError;
using tendril::Tensor;
using tendril::nn::Linear;
using tendril::testing::says;
using tendril::testing::test_seed;
namespace make = tendril::make;
namespace raw = tendril::raw;

BOOST_AUTO_TEST_CASE(values_and_gradients_equal_pytorchs) {
  const tendril::testing::Golden golden(TENDRIL_TEST_DATA "/linear.txt");
  for (tendril::DType dtype : {tendril::kFloat64, tendril::kFloat32}) {
    Linear with_bias(4, 5, {.dtype = dtype}), without_bias(4, 5, {.bias = false, .dtype = dtype});
    for (Linear* layer : {&with_bias, &without_bias}) raw::copy_(layer->weight, golden.get("weight", dtype));
    raw::copy_(with_bias.bias, golden.get("bias", dtype));
    Tensor x = golden.get("x", dtype).requires_grad_();
    check_layer(golden, "with_bias", dtype, [&] { return with_bias(x); },
                {{"x", x}, {"weight", with_bias.weight}, {"bias", with_bias.bias}});
    check_layer(golden, "without_bias", dtype, [&] { return without_bias(x); },
                {{"x", x}, {"weight", without_bias.weight}});
    Tensor vector = raw::clone(raw::select(raw::select(x, 0, 0), 0, 0)).requires_grad_();
    check_layer(golden, "vector", dtype, [&] { return with_bias(vector); },
                {{"x", vector}, {"weight", with_bias.weight}, {"bias", with_bias.bias}});
  }
}

BOOST_AUTO_TEST_CASE(an_empty_batch_gives_an_empty_batch) {
  Linear layer(4, 5);
  BOOST_TEST((layer(make::zeros({0, 4})).sizes() == tendril::Dims{0, 5}));
}

BOOST_AUTO_TEST_CASE(initial_values_are_uniform_within_one_over_the_root_of_the_inputs) {
  Generator generator(test_seed());
  Linear layer(16, 5000, {.generator = generator});
  for (const Tensor& parameter : layer.parameters()) {
    const std::vector<double> values = parameter.to_vector<double>();
    // Ten equal bins: with 9 degrees of freedom, chi-square is above 70 with probability 2e-11.
    std::vector<double> bins(10);
    for (double value : values) {
      BOOST_REQUIRE(std::abs(value) <= 0.25);
      ++bins[static_cast<std::size_t>(std::min(9.0, (value + 0.25) * 20))];
    }
    const double expected = static_cast<double>(values.size()) / 10;
    double chi_square = 0;
    for (double count : bins) chi_square += (count - expected) * (count - expected) / expected;
    BOOST_TEST(chi_square < 70);
  }
}

BOOST_AUTO_TEST_CASE(a_generator_decides_the_initial_values) {
  Generator first(test_seed()), second(test_seed());
  Linear a(3, 2, {.generator = first}), b(3, 2, {.generator = second});
  BOOST_TEST(raw::equal(a.weight, b.weight));
  BOOST_TEST(raw::equal(a.bias, b.bias));
  b.reset_parameters(first);
  BOOST_TEST(!raw::equal(a.weight, b.weight));
}

BOOST_AUTO_TEST_CASE(it_prints_its_sizes) {
  BOOST_TEST(Linear(4, 2).to_string() == "Linear(in_features=4, out_features=2, bias=true)");
  BOOST_TEST(Linear(4, 2, {.bias = false}).to_string() == "Linear(in_features=4, out_features=2, bias=false)");
  BOOST_TEST(Linear(4, 2, {.bias = false}).named_parameters().size() == 1u);
}

BOOST_AUTO_TEST_CASE(sizes_and_types_that_do_not_fit_are_refused) {
  Linear layer(4, 5);
  BOOST_CHECK_EXCEPTION(layer(make::ones({2, 3})), ShapeError, says("Linear", "x", "[2, 3]", "[..., 4]"));
  BOOST_CHECK_EXCEPTION(layer(make::ones({})), ShapeError, says("Linear", "[]", "[..., 4]"));
  BOOST_CHECK_EXCEPTION(layer(make::ones({2, 4}, tendril::kFloat64)), DTypeError, says("linear", "float64", "float32"));
  BOOST_CHECK_EXCEPTION(layer(Tensor()), Error, says("Linear", "x", "undefined"));
  BOOST_CHECK_EXCEPTION(Linear(0, 5), Error, says("Linear", "in_features", "0", "positive"));
  BOOST_CHECK_EXCEPTION(Linear(4, -1), Error, says("Linear", "out_features", "-1", "positive"));
  BOOST_CHECK_EXCEPTION(Linear(4, 2, {.dtype = tendril::kInt64}), DTypeError, says("weight", "int64", "floating"));
}

BOOST_AUTO_TEST_SUITE_END()
