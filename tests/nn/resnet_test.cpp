#include "tendril/nn/models/resnet.h"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <string>

#include "tendril/autograd/grad_mode.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/nn/optim/sgd.h"
#include "tendril/nn/utils/fusion.h"
#include "tendril/tensor/raw.h"
#include "tests/errors.h"
#include "tests/golden.h"
#include "tests/make.h"
#include "tests/seed.h"

BOOST_AUTO_TEST_SUITE(resnet)

using tendril::Dims;
using tendril::Error;
using tendril::Tensor;
using tendril::testing::difference;
using tendril::testing::says;
using tendril::testing::test_seed;
namespace nn = tendril::nn;
namespace make = tendril::make;
namespace raw = tendril::raw;

namespace {

/// golden.py's formula().
Tensor formula(double index, const Dims& sizes) {
  const auto count = static_cast<std::size_t>(tendril::numel_of(sizes));
  const double scale =
      sizes.size() == 1 ? 0.3 : 2 / std::sqrt(static_cast<double>(count) / static_cast<double>(sizes[0]));
  std::vector<double> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = (sizes.size() == 1 ? 1 : 0) + scale * std::sin(index + 0.7 * static_cast<double>(i));
  }
  return make::from_data(values, sizes);
}

/// Two steps of training and an evaluation, as golden.py's.
template <class Block>
void check_training(const std::string& name, const std::array<int64_t, 4>& blocks) {
  const tendril::testing::Golden golden(TENDRIL_TEST_DATA "/resnet.txt");
  nn::ResNet<Block> model(blocks, {.num_classes = 5, .base = 4, .dtype = tendril::kFloat64});
  double index = 0;
  for (const Tensor& p : model.parameters()) raw::copy_(p, formula(index++, p.sizes()));
  tendril::optim::SGD sgd(model.parameters(), {.lr = 0.05});
  const auto batch = [](int i) { return formula(50 + i, {2, 3, 40, 32}) * 30; };
  for (int i = 0; i < 2; ++i) {
    sgd.zero_grad();
    const Tensor y = model(batch(i));
    // Rounding errors grow through the statistics of batches of few values.
    BOOST_TEST(difference(y, golden.get(name + ".y" + std::to_string(i)), 1e-8, 1e-9) == "");
    y.square().mean().backward();
    if (i == 0) {
      for (const auto& [key, p] : model.named_parameters()) {
        const Tensor sum = (p.grad() * formula(0, p.sizes())).sum();
        BOOST_TEST(difference(sum, golden.get(name + ".grad." + key), 1e-8, 1e-9) == "", key);
      }
    }
    sgd.step();
  }
  model.eval();
  BOOST_TEST(difference(model(batch(0)), golden.get(name + ".evaluated"), 1e-8, 1e-9) == "");
  const auto buffers = model.named_buffers();
  BOOST_TEST(!buffers.empty());
  for (const auto& [key, buffer] : buffers) {
    const Tensor sum = raw::cast(buffer, tendril::kFloat64).sum();
    BOOST_TEST(difference(sum, golden.get(name + ".buffer." + key), 1e-8, 1e-9) == "", key);
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_narrow_bottleneck_network_trains_as_in_pytorch) {
  check_training<nn::Bottleneck>("bottleneck", {1, 2, 1, 1});
}

BOOST_AUTO_TEST_CASE(a_narrow_network_of_basic_blocks_trains_as_in_pytorch) {
  check_training<nn::BasicBlock>("basic", {2, 1, 1, 1});
}

BOOST_AUTO_TEST_CASE(the_known_networks_have_the_known_numbers_of_parameters) {
  BOOST_TEST(nn::resnet18().num_parameters() == 11689512);
  BOOST_TEST(nn::resnet34({.base = 8}).num_parameters() < 500000);
  auto model = nn::resnet50();
  BOOST_TEST(model.num_parameters() == 25557032);
  const auto parameters = model.named_parameters();
  BOOST_TEST(parameters.size() == 161u);
  BOOST_TEST(parameters[0].first == "conv1.weight");
  BOOST_TEST(parameters[12].first == "layer1.0.downsample.0.weight");
  BOOST_TEST(parameters.back().first == "fc.bias");
}

BOOST_AUTO_TEST_CASE(images_become_scores) {
  auto model = nn::resnet50({.num_classes = 7, .base = 4});
  model.eval();
  const tendril::NoGrad no_grad;
  BOOST_TEST((model(make::ones({2, 3, 32, 32})).sizes() == Dims{2, 7}));
}

BOOST_AUTO_TEST_CASE(a_generator_decides_the_initial_values) {
  tendril::Generator first(test_seed()), second(test_seed());
  auto a = nn::resnet18({.base = 4, .generator = first}), b = nn::resnet18({.base = 4, .generator = second});
  const auto left = a.parameters(), right = b.parameters();
  for (std::size_t i = 0; i < left.size(); ++i) BOOST_TEST(raw::equal(left[i], right[i]));
}

BOOST_AUTO_TEST_CASE(a_sequence_holds_layers_by_number) {
  nn::Sequential layers;
  nn::Linear& first = layers.emplace<nn::Linear>(4, 3);
  layers.emplace<nn::ReLU>();
  BOOST_TEST(layers.size() == 2u);
  BOOST_TEST(&layers[0] == &first);
  BOOST_TEST(layers.named_parameters()[0].first == "0.weight");
  const Tensor x = formula(1, {2, 4}).to(tendril::kFloat32);
  BOOST_TEST(raw::equal(layers(x).detach(), first(x).relu().detach()));
  BOOST_CHECK_EXCEPTION(layers[2], tendril::IndexError, says("Sequential", "2"));
  BOOST_TEST(raw::equal(nn::Sequential()(x), x));
}

BOOST_AUTO_TEST_CASE(a_network_of_nothing_is_refused) {
  BOOST_CHECK_EXCEPTION(nn::ResNet<nn::BasicBlock>({1, 0, 1, 1}), Error, says("ResNet", "stage 2"));
  BOOST_CHECK_EXCEPTION(nn::resnet18({.base = 0}), Error, says("out_channels", "0"));
}

BOOST_AUTO_TEST_CASE(convolutions_take_in_batch_normalisations) {
  nn::Conv2d conv(4, 6, {3, 2}, {.stride = 2, .padding = 1, .groups = 2, .dtype = tendril::kFloat64});
  nn::BatchNorm2d bn(6, {.eps = 0.1, .dtype = tendril::kFloat64});
  double index = 0;
  for (const Tensor& t : {bn.weight, bn.bias, bn.running_mean}) raw::copy_(t, formula(index++, t.sizes()));
  raw::copy_(bn.running_var, formula(index, {6}).abs() + 0.5);
  const Tensor x = formula(9, {2, 4, 7, 6});
  BOOST_CHECK_EXCEPTION(nn::utils::fuse_conv_bn_eval(conv, bn), Error, says("fuse_conv_bn_eval", "in training"));
  conv.eval();
  bn.eval();
  const nn::Conv2d fused = nn::utils::fuse_conv_bn_eval(conv, bn);
  const Tensor expected = bn(conv(x));
  BOOST_TEST(difference(fused(x), expected, 1e-12, 1e-12) == "");
  BOOST_TEST(fused.bias.requires_grad());
  BOOST_TEST(!fused.is_training());
  const nn::utils::FusedConv plain(conv, bn);
  BOOST_TEST(difference(plain.relu(x), expected.relu(), 1e-12, 1e-12) == "");
  BOOST_TEST(plain.is_current(conv, bn));
  conv.weight = conv.weight.detach().clone();
  BOOST_TEST(!plain.is_current(conv, bn));
  const nn::utils::FusedConv again(conv, bn);
  bn.running_mean.fill_(0.5);
  BOOST_TEST(!again.is_current(conv, bn));
  const nn::BatchNorm2d untracked(6, {.track_running_stats = false});
  BOOST_CHECK_EXCEPTION(nn::utils::FusedConv(conv, untracked), Error, says("FusedConv", "no running statistics"));
}

BOOST_AUTO_TEST_CASE(a_fused_network_evaluates_the_same_and_follows_its_layers) {
  const auto check = [](auto& model) {
    double index = 0;
    for (const Tensor& p : model.parameters()) raw::copy_(p, formula(index++, p.sizes()));
    const Tensor x = formula(50, {2, 3, 40, 32}) * 30;
    for (int i = 0; i < 2; ++i) model(x);  // statistics
    model.eval();
    Tensor before;
    {
      const tendril::NoGrad no_grad;
      before = model(x);
      model.fuse_conv_bn();
      BOOST_TEST(difference(model(x), before, 1e-9, 1e-9) == "");
    }
    BOOST_TEST(model(x).requires_grad());  // by its layers
    const auto check_follows = [&](const char* what) {
      const tendril::Tensor by_layers = model(x).detach();
      const tendril::NoGrad no_grad;
      BOOST_TEST(difference(model(x), before, 1e-9, 1e-9) != "", what);
      BOOST_TEST(raw::equal(model(x), by_layers), what);  // by its layers, too
      model.fuse_conv_bn();
      BOOST_TEST(!raw::equal(model(x), by_layers), what);  // fused again
      BOOST_TEST(difference(model(x), by_layers, 1e-9, 1e-9) == "", what);
      before = by_layers;
    };
    model.train();
    model(x);  // statistics
    model.eval();
    check_follows("a training step");
    const tendril::StateDict saved = model.state_dict().clone();
    for (const auto& [name, tensor] : saved) {
      if (name.ends_with("running_var")) raw::binary_(tendril::Binary::mul, tensor, 1.5);
    }
    model.load_state_dict(saved);
    check_follows("loading");
  };
  nn::ResNet<nn::Bottleneck> large({1, 2, 1, 1}, {.num_classes = 5, .base = 4, .dtype = tendril::kFloat64});
  check(large);
  nn::ResNet<nn::BasicBlock> small({1, 1, 1, 1}, {.num_classes = 5, .base = 4, .dtype = tendril::kFloat64});
  check(small);
}

BOOST_AUTO_TEST_SUITE_END()
