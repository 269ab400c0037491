#include "tendril/autograd/hooks.h"

#include "tendril/autograd/backward.h"
#include "tendril/autograd/grad_mode.h"
#include "tendril/autograd/history.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/tensor/creation.h"
#include "tests/autograd/raises.h"

BOOST_AUTO_TEST_SUITE(hooks)

using namespace tendril;
using autograd::register_hook;

namespace {
using Values = std::vector<float>;
Values values(const Tensor& x) { return x.to_vector<float>(); }
Tensor leaf() { return tensor({1., 2.}, {.requires_grad = true}); }
}  // namespace

BOOST_AUTO_TEST_CASE(a_hook_sees_the_whole_gradient_once) {
  const Tensor x = leaf();
  std::vector<Values> seen;
  register_hook(x, [&](const Tensor& g) {
    seen.push_back(values(g));
    return Tensor();
  });
  (x * 2 + x * 3).sum().backward();
  BOOST_TEST(seen.size() == 1);
  BOOST_TEST(seen.at(0) == Values({5, 5}));
  BOOST_TEST(values(x.grad()) == Values({5, 5}));
}

BOOST_AUTO_TEST_CASE(a_hook_may_replace_the_gradient) {
  const Tensor x = leaf();
  const Tensor y = x * 2;
  register_hook(y, [](const Tensor& g) { return g * 10; });
  register_hook(y, [](const Tensor& g) { return g + 1; });
  y.sum().backward();
  BOOST_TEST(values(x.grad()) == Values({22, 22}));
}

BOOST_AUTO_TEST_CASE(a_removed_hook_is_silent) {
  const Tensor x = leaf();
  int calls = 0;
  auto handle = register_hook(x, [&](const Tensor&) {
    ++calls;
    return Tensor();
  });
  (x * 2).sum().backward();
  handle.remove();
  (x * 2).sum().backward();
  BOOST_TEST(calls == 1);
}

BOOST_AUTO_TEST_CASE(a_dropped_handle_leaves_the_hook) {
  const Tensor x = leaf();
  int calls = 0;
  {
    auto handle = register_hook(x, [&](const Tensor&) { return ++calls, Tensor(); });
  }
  (x * 2).sum().backward();
  BOOST_TEST(calls == 1);
}

BOOST_AUTO_TEST_CASE(a_handle_outlives_its_graph) {
  autograd::HookHandle handle;
  {
    const Tensor x = leaf();
    handle = register_hook(x, [](const Tensor& g) { return g; });
  }
  handle.remove();
}

BOOST_AUTO_TEST_CASE(a_hook_may_remove_itself) {
  const Tensor x = leaf();
  int calls = 0;
  autograd::HookHandle handle;
  handle = register_hook(x, [&](const Tensor&) {
    ++calls;
    handle.remove();
    return Tensor();
  });
  (x * 2).sum().backward();
  (x * 2).sum().backward();
  BOOST_TEST(calls == 1);
}

BOOST_AUTO_TEST_CASE(hooks_of_a_captured_tensor_run_before_it_is_captured) {
  const Tensor x = leaf();
  const Tensor y = x * 2;
  register_hook(y, [](const Tensor& g) { return g * 10; });
  register_hook(x, [](const Tensor& g) { return g + 1; });
  const auto gradients = autograd::grad({y.sum()}, {y, x});
  BOOST_TEST(values(gradients[0]) == Values({10, 10}));
  BOOST_TEST(values(gradients[1]) == Values({21, 21}));
}

BOOST_AUTO_TEST_CASE(a_hook_is_recorded_under_create_graph) {
  const Tensor x = tensor({3.}, {.requires_grad = true});
  const Tensor y = x * x;
  register_hook(y, [](const Tensor& g) { return g * g; });
  const Tensor w = tensor({2.}, {.requires_grad = true});
  const Tensor first = autograd::grad({y * w}, {x}, {}, {.create_graph = true})[0];  // w * w * 2 x
  BOOST_TEST(values(autograd::grad({first}, {w})[0]) == Values({24}));
}

BOOST_AUTO_TEST_CASE(node_hooks_see_what_goes_in_and_what_comes_out) {
  const Tensor x = leaf();
  const Tensor y = x * 3;
  autograd::Node& node = *autograd::grad_fn(y);
  BOOST_TEST(node.name() == std::string("MulBackward"));
  Values before, after;
  register_pre_hook(node, [&](std::span<Tensor> g) {
    before = values(g[0]);
    g[0] = g[0] * 2;
  });
  register_post_hook(node, [&](std::span<Tensor> dx, std::span<const Tensor> g) {
    after = values(dx[0]);
    BOOST_TEST(values(g[0]) == Values({2, 2}));
    dx[0] = dx[0] + 1;
  });
  y.sum().backward();
  BOOST_TEST(before == Values({1, 1}));
  BOOST_TEST(after == Values({6, 6}));
  BOOST_TEST(values(x.grad()) == Values({7, 7}));
}

BOOST_AUTO_TEST_CASE(bad_hooks_are_refused) {
  CHECK_RAISES(AutogradError, "cannot register a hook on a tensor that doesn't require gradient",
               register_hook(ones({2}), [](const Tensor& g) { return g; }));
  const Tensor x = leaf();
  CHECK_RAISES(AutogradError, "the hook is empty", register_hook(x, {}));
  register_hook(x, [](const Tensor& g) { return g.sum(); });
  CHECK_RAISES(ShapeError, "the hook changed the shape of the gradient from [2] to []", (x * 2).sum().backward());
}

BOOST_AUTO_TEST_CASE(a_pre_hook_must_leave_a_gradient_that_fits) {
  const Tensor x = leaf();
  const Tensor y = (x * 3).relu();
  Tensor given;
  register_pre_hook(*autograd::grad_fn(y), [&](std::span<Tensor> g) { g[0] = given; });
  const auto run = [&] { y.sum().backward({.retain_graph = true}); };
  given = ones({1});
  CHECK_RAISES(ShapeError, "gradient 0 that a hook of ReluBackward left has shape [1], expected [2]", run());
  given = ones({2}, {.dtype = kFloat64});
  CHECK_RAISES(DTypeError, "gradient 0 that a hook of ReluBackward left is float64, expected float32", run());
  BOOST_TEST(!x.grad().defined());
  given = {};  // zero
  run();
  BOOST_TEST(!x.grad().defined());
  given = tensor({2., 4.});
  run();
  BOOST_TEST(values(x.grad()) == Values({6, 12}));
}

BOOST_AUTO_TEST_CASE(a_pre_hook_of_a_leaf_must_leave_a_gradient_that_fits) {
  const Tensor x = leaf();
  Tensor given = ones({3});
  register_pre_hook(*autograd::grad_fn(x), [&](std::span<Tensor> g) { g[0] = given; });
  CHECK_RAISES(ShapeError, "gradient 0 that a hook of AccumulateGrad left has shape [3], expected [2]",
               x.sum().backward());
  given = {};
  x.sum().backward();
  BOOST_TEST(!x.grad().defined());
}

BOOST_AUTO_TEST_CASE(a_hook_may_run_another_backward) {
  const Tensor x = leaf(), w = leaf();
  register_hook(x, [&](const Tensor& g) {
    const EnableGrad recording;
    (w * 5).sum().backward();
    return g;
  });
  (x * 2).sum().backward();
  BOOST_TEST(values(w.grad()) == Values({5, 5}));
  BOOST_TEST(values(x.grad()) == Values({2, 2}));
}

BOOST_AUTO_TEST_SUITE_END()
