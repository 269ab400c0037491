// What a user of LibTorch types, compiled and run: each line is written as there, but for the namespaces.
#include <boost/test/unit_test.hpp>

#include "tendril/autograd/backward.h"
#include "tendril/autograd/grad_mode.h"
#include "tendril/autograd/ops/einsum.h"
#include "tendril/autograd/ops/join.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/autograd/ops/random.h"
#include "tendril/nn/activation.h"
#include "tendril/nn/linear.h"
#include "tendril/nn/loss.h"
#include "tendril/nn/optim/adam.h"
#include "tendril/nn/optim/sgd.h"
#include "tendril/nn/sequential.h"
#include "tendril/tensor/creation.h"

BOOST_AUTO_TEST_SUITE(idioms)

using namespace tendril;

BOOST_AUTO_TEST_CASE(tensors) {
  Tensor x = arange(6).to(kFloat32).view({2, 3});
  x += 1;
  x *= 2.0;
  x -= ones({3});
  x /= 1;
  BOOST_TEST(x.sum().item<float>() == 36);
  BOOST_TEST((x.sum(0).sizes() == Dims{3} && x.mean(1, true).sizes() == Dims{2, 1}));
  BOOST_TEST((x.var(0).sizes() == Dims{3} && x.std(-1).sizes() == Dims{2}));
  BOOST_TEST(x.var().item<double>() == 14, boost::test_tools::tolerance(1e-6));
  BOOST_TEST(x.argmax().item<int64_t>() == 5);
  BOOST_TEST((x.argmax(1).sizes() == Dims{2} && std::get<0>(x.max(1)).sizes() == Dims{2}));
  BOOST_TEST(x[1][2].item<float>() == 11);
  BOOST_TEST((zeros(3).sizes() == Dims{3} && x.view(6).sizes() == Dims{6} && x.reshape({-1, 2}).size(0) == 3));
  BOOST_TEST((x.size(-1) == 3 && x.numel() == 6 && x.dim() == 2 && x.t().sizes() == Dims{3, 2}));
  BOOST_TEST(allclose(1 - x, -(x - 1)));
  BOOST_TEST((x == x).all().item<bool>());
  BOOST_TEST(!(x != x).any().item<bool>());
  BOOST_TEST(((x > 3) & (x < 8)).to(kInt64).sum().item<int64_t>() == 2);
  BOOST_TEST((~(x > 3)).sum().item<int64_t>() == 2);
  BOOST_TEST((cat({x, x}, 1).sizes() == Dims{2, 6} && stack({x, x}).sizes() == Dims{2, 2, 3}));
  BOOST_TEST((rand({2, 2}).sizes() == randn_like(zeros({2, 2})).sizes()));
  x.fill_(4).sqrt_().add_(1).clamp_(0, 2.5);
  BOOST_TEST(equal(x, full({2, 3}, 2.5)));
  x[0] = 7;
  BOOST_TEST(x[0].sum().item<float>() == 21);
  x.zero_();
  BOOST_TEST(x.abs().max().item<float>() == 0);
}

BOOST_AUTO_TEST_CASE(gradients) {
  const Tensor w = randn({3}, {.requires_grad = true});
  const Tensor loss = (w * w).sum();
  loss.backward({}, {.retain_graph = true});
  const auto first = autograd::grad({loss}, {w}, {}, {.create_graph = true});
  BOOST_TEST(allclose(w.grad(), first[0].detach()));
  w.grad().zero_();
  BOOST_TEST(w.grad().abs().sum().item<float>() == 0);
  w.zero_grad();
  BOOST_TEST(!w.grad().defined());
}

BOOST_AUTO_TEST_CASE(training) {
  nn::Sequential net(nn::Linear(2, 8), nn::Tanh(), nn::Linear(8, 1));
  std::vector<nn::Linear> layers;
  layers.emplace_back(2, 3);
  layers.push_back(nn::Linear(3, 2));
  optim::Adam optimizer(net.parameters(), 1e-2);
  const optim::SGD other(layers[0].parameters(), 0.1);
  const Tensor x = randn({16, 2}), y = x.sum(1, true);
  double before = 0, after = 0;
  for (int step = 0; step < 50; ++step) {
    optimizer.zero_grad();
    const Tensor loss = mse_loss(net.forward(x), y);
    loss.backward();
    optimizer.step();
    (step == 0 ? before : after) = loss.item<double>();
  }
  BOOST_TEST(after < before);
}

BOOST_AUTO_TEST_CASE(parameters_of_a_const_vector_in_place) {
  nn::Linear layer(2, 2);
  const std::vector<Tensor> parameters = layer.parameters();
  const NoGrad no_grad;
  for (const Tensor& p : parameters) p.fill_(1);
  for (const Tensor& p : parameters) p.add_(p, -0.5);
  for (const auto& p : parameters) p.mul_(2);
  for (const auto& p : parameters) p.set_grad(ones_like(p));
  for (const auto& p : parameters) p -= p.grad();
  BOOST_TEST(layer.forward(ones({1, 2})).abs().sum().item<float>() == 0);
  for (const auto& p : parameters) p.zero_grad();
  for (const auto& p : parameters) p.requires_grad_(false);
  BOOST_TEST(!layer.forward(ones({1, 2})).requires_grad());
}

BOOST_AUTO_TEST_SUITE_END()
