// Networks over images in channels-last order give what they give in the other.
#include <boost/test/unit_test.hpp>

#include "tendril/autograd/backward.h"
#include "tendril/autograd/grad_mode.h"
#include "tendril/autograd/ops/loss.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/autograd/ops/pool.h"
#include "tendril/nn/models/resnet.h"
#include "tendril/nn/optim/adam.h"
#include "tendril/nn/optim/sgd.h"
#include "tendril/tensor/raw.h"
#include "tests/golden.h"
#include "tests/seed.h"

BOOST_AUTO_TEST_SUITE(channels_last)

using namespace tendril;
using tendril::testing::test_seed;
using testing::difference;
constexpr MemoryFormat kLast = MemoryFormat::channels_last, kRows = MemoryFormat::contiguous;

namespace {

Tensor noise(const Dims& sizes, uint64_t seed) {
  Generator generator(test_seed(seed));
  const Tensor x = raw::empty(sizes, kFloat64);
  raw::normal_(x, 0, 1, generator);
  return raw::to(x, default_device());
}

nn::ResNet<nn::Bottleneck> network() {
  Generator generator(test_seed());
  return nn::ResNet<nn::Bottleneck>({1, 1, 1, 1},
                                    {.num_classes = 5, .base = 4, .dtype = kFloat64, .generator = generator});
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_residual_network_trains_and_evaluates_as_in_the_other_format) {
  nn::ResNet<nn::Bottleneck> rows = network(), last = network();
  last.to(kLast);
  optim::SGD sgd(rows.parameters(), {.lr = 0.01, .momentum = 0.9});
  optim::SGD other(last.parameters(), {.lr = 0.01, .momentum = 0.9});
  const Tensor target = raw::to(raw::from_data(std::vector<int64_t>{0, 4, 2}, {3}), default_device());
  for (uint64_t step = 0; step < 3; ++step) {
    const Tensor x = noise({3, 3, 40, 48}, step);
    // The optimizer goes on where parameters have been put in the other order.
    if (step == 2) last.to(kRows);
    const auto train = [&](auto& model, optim::SGD& optimizer, const Tensor& images) {
      optimizer.zero_grad();
      Tensor loss = cross_entropy(model(images), target);
      loss.backward();
      optimizer.step();
      return loss;
    };
    const Tensor a = train(rows, sgd, x), b = train(last, other, x.to(step == 1 ? kRows : kLast));
    BOOST_TEST(difference(b, a, 1e-9, 1e-9) == "", step);
    const auto expected = rows.named_parameters(), got = last.named_parameters();
    for (std::size_t i = 0; i < expected.size(); ++i) {
      BOOST_TEST(difference(got[i].second, expected[i].second, 1e-8, 1e-9) == "", expected[i].first << " " << step);
    }
    if (step == 1) {
      BOOST_TEST((last.conv1.weight.suggest_memory_format() == kLast && last.conv1.weight.is_leaf()));
      BOOST_TEST((last.conv1.weight.grad().suggest_memory_format() == kLast));
      BOOST_TEST((sgd.state_dict().at("state.0.momentum_buffer").sizes() == Dims{4, 3, 7, 7}));
    }
  }
  rows.eval();
  last.to(kLast).eval();
  const NoGrad no_grad;
  const Tensor x = noise({2, 3, 33, 37}, 9);
  BOOST_TEST(difference(last(x.to(kLast)), rows(x), 1e-8, 1e-9) == "");
  last.fuse_conv_bn();
  BOOST_TEST(difference(last(x.to(kLast)), rows(x), 1e-7, 1e-8) == "");
}

BOOST_AUTO_TEST_CASE(layers_for_images_keep_to_the_format_of_x_or_of_the_weight) {
  Generator generator(test_seed());
  nn::Conv2d conv(3, 6, 3, {.dtype = kFloat64, .generator = generator});
  nn::BatchNorm2d norm(6, {.dtype = kFloat64});
  const Tensor x = noise({2, 3, 9, 8}, 1).requires_grad_();
  BOOST_TEST((conv(x).suggest_memory_format() == kRows));
  BOOST_TEST((conv(x.to(kLast)).suggest_memory_format() == kLast));
  conv.to(kLast);
  const Tensor y = conv(x);
  BOOST_TEST((y.suggest_memory_format() == kLast));
  BOOST_TEST((norm(y).suggest_memory_format() == kLast));
  BOOST_TEST((norm.forward_relu(y, y).suggest_memory_format() == kLast));
  BOOST_TEST((max_pool2d(y, 2).suggest_memory_format() == kLast));
  BOOST_TEST((avg_pool2d(y, 2).suggest_memory_format() == kLast));
  BOOST_TEST((adaptive_avg_pool2d(y, 3).suggest_memory_format() == kLast));
  BOOST_TEST((conv(x[0].to(kFloat64)).dim() == 3));
}

BOOST_AUTO_TEST_CASE(flatten_and_reshape_read_the_elements_in_the_order_of_the_dimensions) {
  for (const Dims& sizes : {Dims{2, 3, 4, 5}, Dims{5, 2, 5, 1}}) {
    const Tensor rows = noise(sizes, 1), last = rows.to(kLast);
    const Tensor expected = rows.reshape({sizes[0], -1});
    BOOST_TEST(difference(last.flatten(1), expected, 0, 0) == "");
    BOOST_TEST(difference(raw::reshape(last, expected.sizes()), expected, 0, 0) == "");
    const Tensor x = rows.to(kLast).requires_grad_(), weight = noise(expected.sizes(), 2);
    (x.reshape(expected.sizes()) * weight).sum().backward();
    BOOST_TEST(difference(x.grad(), weight.reshape(sizes), 0, 0) == "");
  }
}

BOOST_AUTO_TEST_CASE(state_dicts_go_from_one_format_to_the_other) {
  Generator a(test_seed()), b(test_seed(1));
  nn::Conv2d rows(3, 6, 3, {.generator = a}), last(3, 6, 3, {.generator = b});
  last.to(kLast);
  last.load_state_dict(rows.state_dict());
  BOOST_TEST((raw::equal(last.weight, rows.weight) && last.weight.suggest_memory_format() == kLast));
  rows.load_state_dict(last.state_dict().clone());
  BOOST_TEST((raw::equal(last.weight, rows.weight) && rows.weight.is_contiguous()));
  optim::Adam adam(last.parameters(), {.lr = 0.1});
  raw::fill_(last.bias, 0);
  last(raw::to(raw::ones({1, 3, 5, 5}), default_device())).sum().backward();
  adam.step();
  const StateDict saved = adam.state_dict();
  optim::Adam again(rows.parameters(), {.lr = 0.1});
  again.load_state_dict(saved);
  BOOST_TEST(raw::equal(again.state(rows.weight).exp_avg, adam.state(last.weight).exp_avg));
}

BOOST_AUTO_TEST_SUITE_END()
