// Hooks on modules: what they see, what they may replace, and when they are called.
#include "tendril/nn/hooks.h"

#include <boost/test/unit_test.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tendril/autograd/backward.h"
#include "tendril/autograd/grad_mode.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/nn/activation.h"
#include "tendril/nn/linear.h"
#include "tendril/nn/loss.h"
#include "tendril/nn/lstm.h"
#include "tendril/nn/sequential.h"
#include "tests/errors.h"
#include "tests/make.h"

BOOST_AUTO_TEST_SUITE(hooks)

using namespace tendril;
using tendril::testing::says;
using Tensors = std::vector<Tensor>;

namespace {

/// A module of one's own, of two tensors to two, without an operator().
struct Cross : nn::Module {
  std::pair<Tensor, Tensor> forward(const Tensor& x, const Tensor& y) const { return {x * y, x + y}; }
};

}  // namespace

BOOST_AUTO_TEST_CASE(they_see_and_replace_what_goes_in_and_comes_out) {
  nn::ReLU layer;
  std::vector<std::string> order;
  auto before = layer.register_forward_pre_hook([&](const nn::Module& module, Tensors& inputs) {
    order.push_back("before " + module.name());
    inputs[0] = inputs[0] + 1;
  });
  auto after = layer.register_forward_hook([&](const nn::Module&, const Tensors& inputs, Tensors& outputs) {
    order.push_back("after");
    BOOST_TEST(inputs[0].item<float>() == 3);
    outputs[0] = outputs[0] * 10;
  });
  const Tensor x = make::full({1}, 2);
  BOOST_TEST(layer(x).item<float>() == 30);
  BOOST_TEST(layer.forward(x).item<float>() == 2);  // not between its hooks
  BOOST_TEST(order == (std::vector<std::string>{"before ReLU", "after"}));
  before.remove();
  after.remove();
  BOOST_TEST(layer(x).item<float>() == 2);
  BOOST_TEST(order.size() == 2u);
}

BOOST_AUTO_TEST_CASE(several_are_called_in_the_order_of_registration_and_may_register_others) {
  nn::Tanh layer;
  std::string order;
  const auto note = [&](char c) { return [&order, c](const nn::Module&, const Tensors&, Tensors&) { order += c; }; };
  layer.register_forward_hook(note('a'));
  auto b = layer.register_forward_hook(note('b'));
  layer.register_forward_pre_hook([&](const nn::Module&, Tensors&) { b.remove(); });
  layer.register_forward_pre_hook([&](const nn::Module&, Tensors&) { layer.register_forward_hook(note('c')); });
  const Tensor x = make::ones({1});
  layer(x);
  BOOST_TEST(order == "a");
  order.clear();
  layer(x);
  BOOST_TEST(order == "ac");
}

BOOST_AUTO_TEST_CASE(children_of_a_sequence_and_modules_of_ones_own_have_them) {
  nn::Sequential net(nn::Linear(2, 3), nn::ReLU(), nn::Linear(3, 1));
  std::vector<std::string> seen;
  for (nn::Module* module : net.modules()) {
    module->register_forward_hook([&](const nn::Module& of, const Tensors&, Tensors&) { seen.push_back(of.name()); });
  }
  net(make::ones({4, 2}));
  BOOST_TEST(seen == (std::vector<std::string>{"Linear", "ReLU", "Linear", "Sequential"}));

  Cross cross;
  cross.register_forward_hook([](const nn::Module&, const Tensors& in, Tensors& out) {
    BOOST_TEST(in.size() == 2u);
    std::swap(out[0], out[1]);
  });
  const auto [sum, product] = nn::call(cross, make::full({1}, 3), make::full({1}, 4));
  BOOST_TEST(sum.item<float>() == 7);
  BOOST_TEST(product.item<float>() == 12);
}

BOOST_AUTO_TEST_CASE(layers_of_several_tensors_show_all_of_them) {
  nn::LSTM lstm(2, 3);
  std::size_t in = 0, out = 0;
  lstm.register_forward_hook([&](const nn::Module&, const Tensors& inputs, Tensors& outputs) {
    in = inputs.size();
    out = outputs.size();
    outputs[0] = outputs[0] * 0;
  });
  const auto [y, state] = lstm(make::ones({4, 1, 2}));
  BOOST_TEST(in == 3u);  // x, h, c: the state is undefined
  BOOST_TEST(out == 3u);
  BOOST_TEST(y.abs().sum().item<float>() == 0);
  BOOST_TEST(state.h.abs().sum().item<float>() > 0);
  nn::MSELoss loss;
  loss.register_forward_pre_hook([](const nn::Module&, Tensors& inputs) { inputs[1] = inputs[0]; });
  BOOST_TEST(loss(make::ones({2}), make::zeros({2})).item<float>() == 0);
}

BOOST_AUTO_TEST_CASE(backward_hooks_see_and_replace_gradients) {
  Cross cross;
  const Tensor x = make::full({1}, 3).requires_grad_(), y = make::full({1}, 4);
  int calls = 0;
  auto handle = cross.register_full_backward_hook([&](const nn::Module&, Tensors& in, const Tensors& out) {
    ++calls;
    BOOST_TEST(in.size() == 2u);
    BOOST_TEST(in[0].item<float>() == 2 * 4 + 0);
    BOOST_TEST(!in[1].defined());  // y requires none
    BOOST_TEST(out[0].item<float>() == 2);
    BOOST_TEST(out[1].item<float>() == 0);  // nothing was computed from it
    in[0] = in[0] * 100;
  });
  const auto [product, sum] = nn::call(cross, x, y);
  (product * 2).sum().backward();
  BOOST_TEST(calls == 1);
  BOOST_TEST(x.grad().item<float>() == 800);
  handle.remove();
  x.zero_grad();
  const auto again = nn::call(cross, x, y);
  (again.first * 2).sum().backward();
  BOOST_TEST(calls == 1);
  BOOST_TEST(x.grad().item<float>() == 8);
}

BOOST_AUTO_TEST_CASE(backward_hooks_are_called_for_each_call_and_for_modules_whose_inputs_require_nothing) {
  nn::Linear layer(2, 1);
  int calls = 0;
  layer.register_full_backward_hook([&](const nn::Module&, Tensors& in, const Tensors& out) {
    ++calls;
    BOOST_TEST(!in[0].defined());
    BOOST_TEST((out[0].sizes() == Dims{3, 1}));
  });
  const Tensor x = make::ones({3, 2});
  (layer(x) + layer(x)).sum().backward();
  BOOST_TEST(calls == 2);
  {
    const NoGrad nothing_recorded;
    BOOST_TEST(!layer(x).requires_grad());
  }
  BOOST_TEST(layer.weight.grad()[0][0].item<float>() == 6);
}

BOOST_AUTO_TEST_CASE(gradients_between_hooks_can_be_differentiated_again) {
  nn::Tanh layer;
  layer.register_full_backward_hook([](const nn::Module&, Tensors& in, const Tensors&) { in[0] = in[0] * 3; });
  const Tensor x = make::full({1}, 0.5, kFloat64).requires_grad_();
  const Tensor g = autograd::grad({layer(x)}, {x}, {make::ones({1}, kFloat64)}, {.create_graph = true})[0];
  const double t = std::tanh(0.5);
  BOOST_TEST(std::abs(g.item<double>() - 3 * (1 - t * t)) < 1e-12);
  const Tensor second = autograd::grad({g}, {x})[0];
  BOOST_TEST(std::abs(second.item<double>() - 3 * -2 * t * (1 - t * t)) < 1e-12);
}

BOOST_AUTO_TEST_CASE(a_moved_module_keeps_its_hooks) {
  nn::ReLU layer;
  int calls = 0;
  layer.register_forward_hook([&](const nn::Module&, const Tensors&, Tensors&) { ++calls; });
  nn::Sequential net(std::move(layer));
  net(make::ones({1}));
  BOOST_TEST(calls == 1);
}

BOOST_AUTO_TEST_CASE(what_does_not_fit_is_refused) {
  nn::ReLU layer;
  BOOST_CHECK_EXCEPTION(layer.register_forward_hook(nullptr), Error, says("register_forward_hook", "empty"));
  auto handle = layer.register_forward_pre_hook([](const nn::Module&, Tensors& inputs) { inputs.clear(); });
  BOOST_CHECK_EXCEPTION(layer(make::ones({1})), Error, says("forward_pre_hook", "ReLU", "0", "1"));
  handle.remove();
  layer.register_full_backward_hook([](const nn::Module&, Tensors& in, const Tensors&) {
    in[0] = in[0].reshape({2, 1});
  });
  const Tensor y = layer(make::ones({2}).requires_grad_());
  BOOST_CHECK_EXCEPTION(y.sum().backward(), ShapeError, says("full_backward_hook", "ReLU", "[2, 1]", "[2]"));
}

BOOST_AUTO_TEST_SUITE_END()
