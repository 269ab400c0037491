// Layers, backward and optimizers together: ten steps of a small network follow PyTorch's.
#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

#include "tendril/nn/linear.h"
#include "tendril/nn/optim/adam.h"
#include "tendril/nn/optim/sgd.h"
#include "tendril/tensor/raw.h"
#include "tests/golden.h"

BOOST_AUTO_TEST_SUITE(training)

using tendril::DType;
using tendril::Tensor;
using tendril::testing::difference;
using tendril::testing::Golden;
namespace nn = tendril::nn;
namespace optim = tendril::optim;
namespace raw = tendril::raw;

namespace {

struct Classifier : nn::Module {
  nn::Linear fc1, fc2;

  explicit Classifier(DType dtype) : fc1(4, 8, {.dtype = dtype}), fc2(8, 3, {.dtype = dtype}) {
    register_module("fc1", fc1);
    register_module("fc2", fc2);
  }
  Tensor forward(const Tensor& x) const { return fc2(fc1(x).tanh()).log_softmax(-1); }
};

/// Ten steps in float64 keep the golden file's digits but for the last few; in float32 they add rounding errors of
/// 1e-7 each, which the network passes on about tenfold.
void check_training(const std::string& name, DType dtype, const auto& make_optimizer) {
  const double tolerance = dtype == tendril::kFloat64 ? 1e-12 : 2e-5;
  const Golden golden(TENDRIL_TEST_DATA "/training.txt");
  Classifier model(dtype);
  for (const auto& [path, p] : model.named_parameters()) raw::copy_(p, golden.get("start." + path, dtype));
  const Tensor x = golden.get("x", dtype), target = golden.get("target");
  auto optimizer = make_optimizer(model.parameters());
  const std::vector<double> losses = golden.get(name + ".losses").to_vector<double>();
  for (std::size_t step = 0; step < losses.size(); ++step) {
    optimizer.zero_grad();
    const Tensor loss = model.forward(x).gather(1, target).mean().neg();
    BOOST_TEST(loss.item<double>() == losses[step], boost::test_tools::tolerance(tolerance));
    loss.backward();
    if (step == 0) {
      for (const auto& [path, p] : model.named_parameters()) {
        BOOST_TEST(difference(p.grad(), golden.get("grad." + path), tolerance, tolerance) == "", path);
      }
    }
    optimizer.step();
  }
  for (const auto& [path, p] : model.named_parameters()) {
    BOOST_TEST(difference(p, golden.get(name + "." + path), tolerance, tolerance) == "", path);
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(ten_steps_of_sgd_equal_pytorchs) {
  for (DType dtype : {tendril::kFloat64, tendril::kFloat32}) {
    check_training("sgd", dtype, [](const std::vector<Tensor>& params) {
      return optim::SGD(params, {.lr = 0.1, .momentum = 0.9, .nesterov = true});
    });
  }
}

BOOST_AUTO_TEST_CASE(ten_steps_of_adam_equal_pytorchs) {
  for (DType dtype : {tendril::kFloat64, tendril::kFloat32}) {
    check_training("adam", dtype, [](const std::vector<Tensor>& params) {
      return optim::Adam(params, {.lr = 0.05, .weight_decay = 0.01});
    });
  }
}

BOOST_AUTO_TEST_SUITE_END()
