// Every layer, in training and in evaluation, against differences of its own values.
#include "tendril/autograd/gradcheck.h"

#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

#include "tendril/nn/activation.h"
#include "tendril/nn/batch_norm.h"
#include "tendril/nn/conv.h"
#include "tendril/nn/distributions/categorical.h"
#include "tendril/nn/dropout.h"
#include "tendril/nn/linear.h"
#include "tendril/nn/pooling.h"
#include "tendril/tensor/raw.h"
#include "tests/make.h"
#include "tests/seed.h"

BOOST_AUTO_TEST_SUITE(gradcheck)

using tendril::Dims;
using tendril::Generator;
using tendril::Tensor;
using tendril::autograd::DifferentiableFunction;
using tendril::distributions::Categorical;
using tendril::testing::test_seed;
namespace nn = tendril::nn;
namespace make = tendril::make;
namespace raw = tendril::raw;

namespace {

Tensor draw(const Dims& sizes, double low = -2, double high = 2) {
  Generator& generator = tendril::testing::case_engine<Generator>();
  Tensor x = make::empty(sizes, tendril::kFloat64);
  raw::uniform_(x, low, high, generator);
  return x.requires_grad_();
}

void check(const std::string& name, const DifferentiableFunction& f, const std::vector<Tensor>& inputs) {
  BOOST_TEST_CONTEXT(name) {
    const auto first = tendril::autograd::gradcheck(f, inputs);
    BOOST_TEST(first.ok, first.message);
    const auto second = tendril::autograd::gradgradcheck(f, inputs);
    BOOST_TEST(second.ok, second.message);
  }
}

/// In both modes, over a plain, a batched, an empty and a transposed x.
template <class Layer>
void check_activation(const std::string& name, Layer& layer) {
  for (bool training : {true, false}) {
    layer.train(training);
    const DifferentiableFunction forward = [&](const std::vector<Tensor>& in) {
      return std::vector<Tensor>{layer(in[0])};
    };
    const std::string mode = name + (training ? " in training" : " in evaluation");
    check(mode + ", [3]", forward, {draw({3})});
    check(mode + ", [2, 3]", forward, {draw({2, 3})});
    check(mode + ", [0, 3]", forward, {draw({0, 3})});
    check(mode + ", transposed",
          [&](const std::vector<Tensor>& in) { return std::vector<Tensor>{layer(in[0].transpose(0, 1))}; },
          {draw({2, 3})});
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(linear) {
  for (bool bias : {true, false}) {
    nn::Linear layer(4, 3, {.bias = bias, .dtype = tendril::kFloat64});
    const DifferentiableFunction forward = [&](const std::vector<Tensor>& in) {
      layer.weight = in[1];
      if (bias) layer.bias = in[2];
      return std::vector<Tensor>{layer(in[0])};
    };
    for (bool training : {true, false}) {
      layer.train(training);
      for (const Dims& sizes : {Dims{4}, Dims{2, 4}, Dims{2, 1, 4}, Dims{0, 4}}) {
        std::vector<Tensor> inputs = {draw(sizes), draw({3, 4})};
        if (bias) inputs.push_back(draw({3}));
        check("linear", forward, inputs);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(activations) {
  nn::Sigmoid sigmoid;
  check_activation("sigmoid", sigmoid);
  nn::Tanh tanh;
  check_activation("tanh", tanh);
  nn::SiLU silu;
  check_activation("silu", silu);
  nn::GELU gelu;
  check_activation("gelu", gelu);
  nn::GELU gelu_tanh(nn::Approximate::tanh);
  check_activation("gelu_tanh", gelu_tanh);
  nn::Softmax softmax(-1);
  check_activation("softmax", softmax);
  nn::LogSoftmax log_softmax(-1);
  check_activation("log_softmax", log_softmax);
}

BOOST_AUTO_TEST_CASE(relu_away_from_its_kink) {
  nn::ReLU relu;
  const DifferentiableFunction forward = [&](const std::vector<Tensor>& in) {
    return std::vector<Tensor>{relu(in[0])};
  };
  for (bool training : {true, false}) {
    relu.train(training);
    check("relu", forward, {draw({2, 3}, 0.1, 2)});
    check("relu", forward, {draw({2, 3}, -2, -0.1)});
  }
}

BOOST_AUTO_TEST_CASE(conv2d) {
  for (bool bias : {true, false}) {
    nn::Conv2d layer(4, 2, {3, 2}, {.stride = 2, .padding = 1, .groups = 2, .bias = bias, .dtype = tendril::kFloat64});
    const DifferentiableFunction forward = [&](const std::vector<Tensor>& in) {
      layer.weight = in[1];
      if (bias) layer.bias = in[2];
      return std::vector<Tensor>{layer(in[0])};
    };
    for (bool training : {true, false}) {
      layer.train(training);
      std::vector<Tensor> inputs = {draw({2, 4, 3, 2}), draw({2, 2, 3, 2})};
      if (bias) inputs.push_back(draw({2}));
      check("conv2d", forward, inputs);
    }
  }
}

BOOST_AUTO_TEST_CASE(batch_norm2d) {
  for (bool affine : {true, false}) {
    nn::BatchNorm2d layer(2, {.affine = affine, .dtype = tendril::kFloat64});
    const DifferentiableFunction forward = [&](const std::vector<Tensor>& in) {
      if (affine) {
        layer.weight = in[1];
        layer.bias = in[2];
      }
      return std::vector<Tensor>{layer(in[0])};
    };
    for (bool training : {true, false}) {
      layer.train(training);
      std::vector<Tensor> inputs = {draw({3, 2, 2, 1})};
      if (affine) inputs.insert(inputs.end(), {draw({2}), draw({2})});
      check(training ? "batch_norm2d in training" : "batch_norm2d in evaluation", forward, inputs);
    }
  }
}

BOOST_AUTO_TEST_CASE(mean_pooling) {
  check("avg_pool2d", [](const std::vector<Tensor>& in) { return std::vector<Tensor>{nn::AvgPool2d(2)(in[0])}; },
        {draw({2, 1, 4, 3})});
  check("adaptive_avg_pool2d",
        [](const std::vector<Tensor>& in) {
          return std::vector<Tensor>{nn::AdaptiveAvgPool2d({1, 2})(in[0])};
        },
        {draw({2, 1, 4, 3})});
}

BOOST_AUTO_TEST_CASE(dropout) {
  Generator generator(test_seed());
  for (double p : {0.0, 0.4, 1.0}) {
    nn::Dropout layer(p, generator);
    for (bool training : {true, false}) {
      layer.train(training);
      check("dropout",
            [&](const std::vector<Tensor>& in) {
              generator.manual_seed(test_seed(1));
              return std::vector<Tensor>{layer(in[0])};
            },
            {draw({4, 5})});
    }
  }
}

BOOST_AUTO_TEST_CASE(categorical) {
  const Tensor value = make::from_data(std::vector<int64_t>{2, 0}, {2});
  auto both = [&](const Categorical& c) { return std::vector<Tensor>{c.log_prob(value), c.entropy()}; };
  check("probs", [&](const std::vector<Tensor>& in) { return both(Categorical({.probs = in[0]})); },
        {draw({2, 3}, 0.2, 2)});
  check("logits", [&](const std::vector<Tensor>& in) { return both(Categorical({.logits = in[0]})); }, {draw({2, 3})});
}

BOOST_AUTO_TEST_SUITE_END()
