#include "tendril/nn/activation.h"

#include <boost/test/unit_test.hpp>

#include "tests/errors.h"
#include "tests/make.h"
#include "tests/nn/layer_golden.h"

BOOST_AUTO_TEST_SUITE(activation)

using tendril::DType;
using tendril::Tensor;
using tendril::testing::says;
namespace nn = tendril::nn;

BOOST_AUTO_TEST_CASE(values_and_gradients_equal_pytorchs) {
  const tendril::testing::Golden golden(TENDRIL_TEST_DATA "/activations.txt");
  for (DType dtype : {tendril::kFloat64, tendril::kFloat32}) {
    auto check = [&](const std::string& name, const auto& module) {
      Tensor x = golden.get("x", dtype).requires_grad_();
      check_layer(golden, name, dtype, [&] { return module(x); }, {{"x", x}});
    };
    check("relu", nn::ReLU());
    check("sigmoid", nn::Sigmoid());
    check("tanh", nn::Tanh());
    check("silu", nn::SiLU());
    check("gelu", nn::GELU());
    check("gelu_tanh", nn::GELU(nn::Approximate::tanh));
    check("softmax", nn::Softmax(-1));
    check("softmax0", nn::Softmax(0));
    check("log_softmax", nn::LogSoftmax(-1));
  }
}

BOOST_AUTO_TEST_CASE(they_print_their_options) {
  BOOST_TEST(nn::ReLU().to_string() == "ReLU()");
  BOOST_TEST(nn::GELU().to_string() == "GELU()");
  BOOST_TEST(nn::GELU(nn::Approximate::tanh).to_string() == "GELU(approximate=tanh)");
  BOOST_TEST(nn::Softmax(-1).to_string() == "Softmax(dim=-1)");
  BOOST_TEST(nn::LogSoftmax(1).to_string() == "LogSoftmax(dim=1)");
}

BOOST_AUTO_TEST_CASE(a_dimension_that_is_not_there_is_refused) {
  const Tensor x = tendril::make::ones({2, 3});
  BOOST_CHECK_EXCEPTION(nn::Softmax(2)(x), tendril::IndexError, says("softmax", "2"));
  BOOST_CHECK_EXCEPTION(nn::LogSoftmax(-3)(x), tendril::IndexError, says("log_softmax", "-3"));
}

BOOST_AUTO_TEST_SUITE_END()
