#include <boost/test/unit_test.hpp>

#include "tendril/autograd/gradcheck.h"
#include "tendril/autograd/ops/activation.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/nn/activation.h"
#include "tendril/tensor/raw.h"
#include "tests/errors.h"
#include "tests/make.h"
#include "tests/nn/layer_golden.h"
#include "tests/seed.h"

BOOST_AUTO_TEST_SUITE(more_activations)

using tendril::Tensor;
using tendril::testing::says;
using tendril::testing::test_seed;
namespace nn = tendril::nn;
namespace make = tendril::make;
namespace raw = tendril::raw;

BOOST_AUTO_TEST_CASE(values_and_gradients_equal_pytorchs) {
  const tendril::testing::Golden golden(TENDRIL_TEST_DATA "/more_activations.txt");
  for (const tendril::DType dtype : {tendril::kFloat64, tendril::kFloat32}) {
    const auto check = [&](const std::string& name, const auto& module, const std::string& input = "wide",
                           double factor = 1) {
      const Tensor x = golden.get(input, dtype).requires_grad_();
      check_layer(
          golden, name, dtype, [&] { return module(x); }, {{input, x}}, factor);
    };
    check("leaky_relu", nn::LeakyReLU());
    check("leaky_relu_0.2", nn::LeakyReLU(0.2));
    check("elu", nn::ELU());
    check("elu_0.5", nn::ELU(0.5));
    check("celu", nn::CELU());
    check("celu_0.5", nn::CELU(0.5));
    check("selu", nn::SELU());
    check("mish", nn::Mish());
    check("softplus", nn::Softplus());
    check("softplus_2", nn::Softplus(2, 3));
    check("softsign", nn::Softsign());
    check("logsigmoid", nn::LogSigmoid());
    check("tanhshrink", nn::Tanhshrink());
    check("softshrink", nn::Softshrink());
    check("softshrink_1", nn::Softshrink(1));
    check("hardshrink", nn::Hardshrink());
    check("hardtanh", nn::Hardtanh());
    check("hardtanh_2", nn::Hardtanh(-0.5, 2));
    check("relu6", nn::ReLU6());
    // PyTorch multiplies gradients by 1 / 6 as float32 has it, in float64 too.
    check("hardsigmoid", nn::Hardsigmoid(), "wide", dtype == tendril::kFloat64 ? 1e5 : 1);
    check("hardswish", nn::Hardswish());
    check("threshold", nn::Threshold(0.5, -1));
    check("softmin", nn::Softmin(0));
    check("glu", nn::GLU(1), "x");
    check("glu_last", nn::GLU(), "x");
    for (const auto& [name, count] : {std::pair{"prelu", 1}, std::pair{"prelu_channels", 4}}) {
      nn::PReLU layer({.num_parameters = count, .dtype = dtype});
      raw::copy_(layer.weight, golden.get(name + std::string(".weight"), dtype));
      const Tensor x = golden.get("x", dtype).requires_grad_();
      check_layer(golden, name, dtype, [&] { return layer(x); }, {{"x", x}, {"weight", layer.weight}});
    }
  }
}

BOOST_AUTO_TEST_CASE(those_of_several_numbers_pass_gradcheck) {
  tendril::Generator generator(test_seed());
  // Odd multiples of 1/64 from -2 to 2 avoid the kinks, which are at multiples of 1/32 and at -0.9, 0.1 and 1.1.
  const auto draw = [&](const tendril::Dims& sizes) {
    const Tensor x = make::empty(sizes, tendril::kFloat64);
    raw::randint_(x, -64, 64, generator);
    return ((x * 2 + 1) / 64).requires_grad_();
  };
  using Tensors = std::vector<Tensor>;
  const auto check = [&](const char* name, const tendril::autograd::DifferentiableFunction& f, const Tensors& inputs) {
    const auto first = tendril::autograd::gradcheck(f, inputs);
    BOOST_TEST(first.ok, name << ": " << first.message);
    const auto second = tendril::autograd::gradgradcheck(f, inputs);
    BOOST_TEST(second.ok, name << ": " << second.message);
  };
  check("hardtanh", [](const Tensors& in) { return Tensors{tendril::hardtanh(in[0], -0.9, 1.1)}; }, {draw({3, 4})});
  check("threshold", [](const Tensors& in) { return Tensors{tendril::threshold(in[0], 0.1, 2)}; }, {draw({3, 4})});
  check("softplus", [](const Tensors& in) { return Tensors{tendril::softplus(in[0], 2, 3)}; }, {draw({3, 4})});
  check("prelu", [](const Tensors& in) { return Tensors{tendril::prelu(in[0], in[1])}; }, {draw({2, 3, 2}), draw({3})});
  check("prelu of one", [](const Tensors& in) { return Tensors{tendril::prelu(in[0], in[1])}; },
        {draw({5}), draw({1})});
  check("glu", [](const Tensors& in) { return Tensors{tendril::glu(in[0], 0)}; }, {draw({4, 2})});
}

BOOST_AUTO_TEST_CASE(they_print_their_options) {
  BOOST_TEST(nn::LeakyReLU(0.2).to_string() == "LeakyReLU(negative_slope=0.2)");
  BOOST_TEST(nn::Softplus().to_string() == "Softplus(beta=1, threshold=20)");
  BOOST_TEST(nn::Mish().to_string() == "Mish()");
  BOOST_TEST(nn::PReLU().to_string() == "PReLU(num_parameters=1)");
  BOOST_TEST(nn::PReLU().weight.item<double>() == 0.25);
}

BOOST_AUTO_TEST_CASE(what_makes_no_sense_is_refused) {
  const Tensor x = make::ones({2, 3});
  BOOST_CHECK_EXCEPTION(nn::Hardtanh(2, 1)(x), tendril::Error, says("hardtanh", "min_val", "2"));
  BOOST_CHECK_EXCEPTION(nn::GLU()(x), tendril::ShapeError, says("glu", "[2, 3]", "even"));
  BOOST_CHECK_EXCEPTION(nn::PReLU({.num_parameters = 2})(x), tendril::ShapeError, says("prelu", "[2]", "3"));
  BOOST_CHECK_EXCEPTION(nn::PReLU({.num_parameters = 0}), tendril::Error, says("PReLU", "num_parameters", "0"));
  BOOST_CHECK_EXCEPTION(tendril::softplus(x, 0), tendril::Error, says("softplus", "beta", "0"));
  BOOST_CHECK_EXCEPTION(tendril::threshold(make::ones({2}, tendril::kBool), 0, 0), tendril::DTypeError,
                        says("threshold", "bool"));
}

BOOST_AUTO_TEST_SUITE_END()
