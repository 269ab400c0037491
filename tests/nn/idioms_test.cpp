// What a user of LibTorch types, compiled and run: each line is written as there, but for the namespaces.
#include <boost/test/unit_test.hpp>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "tendril/autograd/backward.h"
#include "tendril/autograd/checkpoint.h"
#include "tendril/autograd/grad_mode.h"
#include "tendril/autograd/hooks.h"
#include "tendril/autograd/ops/activation.h"
#include "tendril/autograd/ops/combined.h"
#include "tendril/autograd/ops/einsum.h"
#include "tendril/autograd/ops/functions.h"
#include "tendril/autograd/ops/indexing.h"
#include "tendril/autograd/ops/join.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/autograd/ops/random.h"
#include "tendril/nn/activation.h"
#include "tendril/nn/flatten.h"
#include "tendril/nn/init.h"
#include "tendril/nn/linear.h"
#include "tendril/nn/loss.h"
#include "tendril/nn/optim/adam.h"
#include "tendril/nn/optim/lr_scheduler.h"
#include "tendril/nn/optim/sgd.h"
#include "tendril/nn/sequential.h"
#include "tendril/tensor/creation.h"
#include "tests/errors.h"

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

BOOST_AUTO_TEST_CASE(more_of_tensors) {
  const Tensor x = tensor(std::vector<float>{3, 1, 2});
  BOOST_TEST((x.dtype() == kFloat32 && x.sizes() == Dims{3}));
  BOOST_TEST((tensor(std::vector<double>{1}).dtype() == kFloat32));
  BOOST_TEST((tensor(std::vector<int>{1, 2}).dtype() == kInt64));
  BOOST_TEST((tensor(std::vector<bool>{true}).dtype() == kBool));
  BOOST_TEST((tensor(std::vector<double>{1}, {.dtype = kFloat64}).dtype() == kFloat64));
  BOOST_TEST((tensor({1, 2, 3}).dtype() == kInt64 && tensor({{1., 2.}, {3., 4.}}).sizes() == Dims{2, 2}));
  const auto [values, places] = x.sort();
  BOOST_TEST(values.to_vector<float>() == (std::vector<float>{1, 2, 3}));
  BOOST_TEST(places.to_vector<int64_t>() == (std::vector<int64_t>{1, 2, 0}));
  BOOST_TEST(std::get<0>(x.sort(0, true))[0].item<float>() == 3);
  BOOST_TEST(std::get<0>(x.topk(2)).to_vector<float>() == (std::vector<float>{3, 2}));
  BOOST_TEST(x.flip(0).to_vector<float>() == (std::vector<float>{2, 1, 3}));
  BOOST_TEST((x.argsort().size(0) == 3 && x.median().item<float>() == 2 && x.repeat({2, 2}).sizes() == Dims{2, 6}));
  BOOST_TEST((x.roll(1, 0)[0].item<float>() == 2 && x.masked_select(x > 1).size(0) == 2 && x.nonzero().size(0) == 3));
  BOOST_TEST((ones({2, 2}).tril().sum().item<float>() == 3 && ones({2, 2}).triu(1).sum().item<float>() == 1));
}

BOOST_AUTO_TEST_CASE(a_variable_of_an_indexed_tensor_is_a_tensor) {
  const Tensor x = arange(6).view({2, 3});
  auto y = x[{slice(), 1}];
  y += 10;  // a view: x changes
  BOOST_TEST(x[0][1].item<int64_t>() == 11);
  y = tensor({7, 7});
  BOOST_TEST(x[0][1].item<int64_t>() == 11);
  BOOST_TEST(y.sum().item<int64_t>() == 14);
  y = x[{slice(), 2}];
  BOOST_TEST(y.to_vector<int64_t>() == (std::vector<int64_t>{2, 5}));
  auto chosen = x[{x > 4}];
  chosen *= 0;  // a copy: x stays
  BOOST_TEST(x[1][2].item<int64_t>() == 5);
  x[{x > 4}] *= 0;
  BOOST_TEST(x.sum().item<int64_t>() == 0 + 0 + 2 + 3 + 0 + 0);
}

BOOST_AUTO_TEST_CASE(what_is_infinite_or_ties_is_as_in_pytorch) {
  const Tensor extreme = tensor({1e300, 1e300, 1e-300, 1e-300}, {.dtype = kFloat64, .requires_grad = true});
  const Tensor products = extreme.cumprod(0);
  BOOST_TEST(products.to_vector<double>() == (std::vector<double>{1e300, HUGE_VAL, HUGE_VAL, HUGE_VAL}));
  BOOST_TEST(tensor({1e-300, 1e-300, 1e300, 1e300}, {.dtype = kFloat64}).cumprod(0)[3].item<double>() == 0);

  const Tensor weight = tensor({0.25}, {.dtype = kFloat64, .requires_grad = true});
  const Tensor x = tensor({HUGE_VAL, 2., -3.}, {.dtype = kFloat64});
  prelu(x, weight).sum().backward();
  BOOST_TEST(weight.grad().item<double>() == -3);

  const Tensor ties = tensor({2., 1., 2., 3., 2.}, {.dtype = kFloat64, .requires_grad = true});
  const Tensor middle = ties.median();
  BOOST_TEST(middle.item<double>() == 2);
  middle.backward();
  BOOST_TEST(allclose(ties.grad(), tensor({1., 0., 1., 0., 1.}, {.dtype = kFloat64}) / 3));
}

BOOST_AUTO_TEST_CASE(methods_are_functions_and_functions_are_methods) {
  const Tensor x = tensor({{1., 5., 3.}, {4., 2., 6.}});
  BOOST_TEST((sum(x).item<float>() == 21 && sum(x, {0, 1}).item().to<int>() == 21 && mean(x, 1).sizes() == Dims{2}));
  BOOST_TEST((max(x).item<float>() == 6 && min(x).item<float>() == 1 && equal(max(x, 2 * x), 2 * x)));
  const auto [largest, places] = max(x, 1);
  BOOST_TEST((equal(largest, x.amax(1)) && equal(places, argmax(x, 1))));
  BOOST_TEST(equal(amin(x, {0, 1}, true), full({1, 1}, 1)));
  BOOST_TEST((all(x > 0).item<bool>() && !any(x > 6).item<bool>() && x.count_nonzero().item<int>() == 6));
  BOOST_TEST((equal(transpose(x, 0, 1), x.t()) && squeeze(unsqueeze(x, 0)).dim() == 2 && split(x, 2, 1).size() == 2));
  BOOST_TEST((x[0].outer(x[1]).sizes() == Dims{3, 3} && x.mv(x[0]).equal(x.matmul(x[0]))));
  BOOST_TEST((x.addmm(x, eye(3)).equal(2 * x) && x.diagonal().sum().item<float>() == 3 && x.trace().item<int>() == 3));
  BOOST_TEST((x.add(x, 2).equal(3 * x) && sub(x, x, 0.5).allclose(x / 2) && x.isclose(x + 1e-9).all().item<bool>()));
  BOOST_TEST((x.where(x > 2, 0 * x).equal(x.clamp_min(2) * (x > 2)) && where(x > 2, 1, 0).dtype() == kInt64));
  BOOST_TEST((x.take(tensor({0, -1})).equal(tensor({1., 6.})) && x.index({slice(), 1}).equal(tensor({5., 2.}))));
  BOOST_TEST((x.unflatten(1, {3, -1}).sizes() == Dims{2, 3, 1} && x.expand_as(ones({2, 2, 3})).dim() == 3));
  BOOST_TEST((hstack({x, x}).sizes() == Dims{2, 6} && vstack({x, x}).sizes() == Dims{4, 3}));
  const auto [deviation, centre] = std_mean(x, 1);
  BOOST_TEST((deviation.equal(tendril::std(x, 1)) && centre.equal(x.mean(1))));
}

BOOST_AUTO_TEST_CASE(steps_in_place_and_what_a_tensor_is) {
  Tensor x = zeros({2, 2}, kFloat64);
  x.addcmul_(ones({2, 2}), ones({2}), 3).addcdiv_(ones({2, 2}), full({2, 2}, 2)).lerp_(zeros({2, 2}), 0.5);
  BOOST_TEST((x.equal(full({2, 2}, 1.75, kFloat64))));
  x.clamp_max_(1).index_put_({0}, 5.0);
  x.index_put_({slice(), 1}, zeros({2}));
  BOOST_TEST(x.flatten().to_vector<double>() == (std::vector<double>{5, 0, 1, 0}));
  x.diagonal().fill_(7);  // a view
  BOOST_TEST(x.sum().item<double>() == 15);
  BOOST_TEST((x.is_floating_point() && x.is_cpu() && !x.is_cuda() && x.element_size() == 8 && x.nbytes() == 32));
  BOOST_TEST((zeros({3}, x.options()).dtype() == kFloat64 && x.data_ptr<double>() == x.data<double>()));
  BOOST_TEST((x.new_full({2}, 3).sum().item<double>() == 6 && x.type_as(ones({1})).dtype() == kFloat32));
  BOOST_TEST(randint(3, {5}).max().item<int>() < 3);
  BOOST_TEST((tensor({1, 2}, kFloat64).dtype() == kFloat64 && tensor({0.5}, kFloat16).dtype() == kFloat16));
  const Tensor w = ones({2}, {.requires_grad = true});
  auto handle = w.register_hook([](const Tensor& g) { return g * 2; });
  w.sum().backward();
  BOOST_TEST(equal(w.grad(), full({2}, 2)));
  handle.remove();
  {
    const NoGradGuard no_grad;
    BOOST_TEST(!(w * 2).requires_grad());
  }
  BOOST_CHECK_EXCEPTION(ones({2}, kInt64).add(ones({2}, kInt64), 0.5), DTypeError,
                        tendril::testing::says("add", "alpha", "0.5", "int64"));
  BOOST_CHECK_EXCEPTION(arange(3).pow(-1), Error, tendril::testing::says("pow", "-1", "0 or more"));
  BOOST_CHECK_EXCEPTION(x.unflatten(0, {3, -1}), ShapeError, tendril::testing::says("unflatten"));
  BOOST_CHECK_EXCEPTION(x.roll({1}, {0, 1}), ShapeError, tendril::testing::says("roll", "[1]", "[0, 1]"));
  BOOST_CHECK_EXCEPTION(x.take(tensor({4})), IndexError, tendril::testing::says("4"));
}

BOOST_AUTO_TEST_CASE(a_change_of_a_diagonal_is_recorded) {
  const Tensor w = ones({2, 3}, {.dtype = kFloat64, .requires_grad = true});
  const Tensor x = w * 2;
  x.diagonal(1).mul_(10);
  (x * x).sum().backward();
  BOOST_TEST(w.grad().flatten().to_vector<double>() == (std::vector<double>{8, 800, 8, 8, 8, 800}));
}

BOOST_AUTO_TEST_CASE(lists_grow_and_are_walked) {
  nn::Sequential net;
  net.push_back(nn::Linear(2, 3));
  net.push_back(nn::Identity());
  net.push_back(nn::Unflatten(1, {3, 1}));
  BOOST_TEST((net(ones({4, 2})).sizes() == Dims{4, 3, 1}));
  BOOST_TEST(net[2].to_string() == "Unflatten(dim=1, unflattened_size=(3, 1))");
  nn::ModuleList list;
  for (int i = 0; i < 3; ++i) list.push_back(nn::Linear(2, 2));
  BOOST_TEST(list.parameters().size() == 6u);
  std::vector<std::string> names;
  net.apply([&](nn::Module& module) { names.push_back(module.name()); });
  BOOST_TEST(names == (std::vector<std::string>{"Linear", "Identity", "Unflatten", "Sequential"}));
  net.apply([](nn::Module& module) {
    if (auto* linear = dynamic_cast<nn::Linear*>(&module)) nn::init::constant_(linear->weight, 1);
  });
  BOOST_TEST(net.parameters()[0].sum().item<float>() == 6);
  BOOST_CHECK_EXCEPTION(net.apply({}), Error, tendril::testing::says("apply", "empty"));
}

BOOST_AUTO_TEST_CASE(a_closure_gives_the_loss_and_schedules_take_numbers) {
  nn::Linear layer(2, 1);
  optim::SGD optimizer(layer.parameters(), 0.1);
  const Tensor x = ones({3, 2}), y = zeros({3, 1});
  const auto closure = [&] {
    optimizer.zero_grad();
    Tensor loss = mse_loss(layer(x), y);
    loss.backward();
    return loss;
  };
  const NoGrad no_grad;  // the closure records all the same
  const double before = optimizer.step(closure).item<double>();
  BOOST_TEST(optimizer.step(closure).item<double>() < before);
  optim::lr_scheduler::StepLR steps(optimizer, 2, 0.5);
  steps.step();
  steps.step();
  BOOST_TEST(optimizer.lr() == 0.05);
  optim::lr_scheduler::MultiStepLR milestones(optimizer, {1, 3});
  optim::lr_scheduler::CosineAnnealingLR cosine(optimizer, 10);
  BOOST_TEST(cosine.last_epoch() == 0);
}

BOOST_AUTO_TEST_CASE(gradients_of_some_leaves) {
  const Tensor w = randn({3}, {.requires_grad = true}), b = randn({3}, {.requires_grad = true});
  const Tensor loss = ((w * w).exp() + b).sum();
  loss.backward({.retain_graph = true, .inputs = {b}});
  BOOST_TEST(!w.grad().defined());
  BOOST_TEST(equal(b.grad(), ones({3})));
  autograd::backward({loss}, {}, {.inputs = {w, b}});
  BOOST_TEST((w.grad().defined() && equal(b.grad(), full({3}, 2))));
  BOOST_CHECK_EXCEPTION((w * 2).sum().backward({.inputs = {w * 1}}), AutogradError,
                        tendril::testing::says("backward", "input 0", "no leaf"));
  BOOST_CHECK_EXCEPTION(w.sum().backward({.inputs = {ones({3})}}), AutogradError,
                        tendril::testing::says("input 0", "require"));
  BOOST_CHECK_EXCEPTION(w.sum().backward({.inputs = {Tensor()}}), Error,
                        tendril::testing::says("input 0", "undefined"));
}

BOOST_AUTO_TEST_CASE(a_sequence_is_checkpointed_in_segments) {
  nn::Sequential net(nn::Linear(3, 4), nn::Tanh(), nn::Linear(4, 4), nn::Tanh(), nn::Linear(4, 1));
  const Tensor x = randn({2, 3}, {.requires_grad = true});
  const auto gradients = [&](const Tensor& y) {
    std::vector<Tensor> wanted = net.parameters();
    wanted.push_back(x);
    return autograd::grad({y.sum()}, wanted);
  };
  const std::vector<Tensor> plain = gradients(net(x));
  for (const int64_t segments : {1, 2, 3, 5}) {
    const std::vector<Tensor> again = gradients(autograd::checkpoint_sequential(net, segments, x));
    for (std::size_t i = 0; i < plain.size(); ++i) BOOST_TEST(equal(plain[i], again[i]));
  }
  int calls = 0;
  const auto squared = [&](const Tensor& h) {
    ++calls;
    return h * h;
  };
  std::vector<std::function<Tensor(const Tensor&)>> functions(4, squared);
  const Tensor y = autograd::checkpoint_sequential(functions, 2, x);
  BOOST_TEST(calls == 4);
  y.sum().backward();
  BOOST_TEST(calls == 6);  // the first half again
  BOOST_TEST(allclose(x.grad(), 16 * x.detach().pow(15), 1e-4, 1e-5));
  BOOST_CHECK_EXCEPTION(autograd::checkpoint_sequential(functions, 5, x), Error,
                        tendril::testing::says("checkpoint_sequential", "5", "4"));
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
