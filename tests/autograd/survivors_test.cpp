// What only mutants showed to be untested: each case was written for a wrong line that no other test minded.
#include <stdexcept>

#include "tendril/autograd/backward.h"
#include "tendril/autograd/engine.h"
#include "tendril/autograd/function.h"
#include "tendril/autograd/grad_mode.h"
#include "tendril/autograd/history.h"
#include "tendril/autograd/hooks.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/tensor/creation.h"
#include "tendril/tensor/memory.h"
#include "tests/autograd/leaves.h"
#include "tests/autograd/raises.h"

BOOST_AUTO_TEST_SUITE(survivors)

using namespace tendril;
using testing::leaf;
using testing::Values;
using testing::values;

namespace {

/// Saves an output that was changed in place while it was made.
struct OnePlus : autograd::Function<OnePlus> {
  static Tensor forward(autograd::FunctionContext& ctx, const Tensor& x) {
    Tensor y = x * 1.0;
    y.add_(1);
    ctx.save_for_backward({y});
    return y;
  }
  static std::vector<Tensor> backward(autograd::FunctionContext& ctx, const std::vector<Tensor>& grads) {
    return {grads[0] * ctx.saved_tensors()[0] * 0 + grads[0]};
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_failed_run_leaves_no_gradient_behind_for_the_next) {
  const Tensor x = leaf({1, 2}), u = x * 2, first = u * 3, second = u * 5, out = first + second;
  const Tensor g = tensor({1., 1.}, {.dtype = kFloat64});
  // `second` runs before `first`, and u has its part by the time that the hook throws.
  auto handle = autograd::register_hook(first, [](const Tensor&) -> Tensor { throw std::runtime_error("no"); });
  BOOST_CHECK_THROW(autograd::backward({out}, {g}, {.retain_graph = true}), std::runtime_error);
  handle.remove();
  autograd::backward({out}, {g});
  BOOST_TEST(values(x.grad()) == Values({16, 16}));
}

BOOST_AUTO_TEST_CASE(a_root_given_by_its_place_is_checked) {
  const Tensor x = leaf({1, 2}), y = x * 2;
  autograd::GradSink sink;
  autograd::GraphTask task({autograd::gradient_edge(y)}, sink);
  CHECK_RAISES(ShapeError, "the gradient of a root has shape [3]",
               task.add_root(std::size_t{0}, zeros({3}, {.dtype = kFloat64})));
}

BOOST_AUTO_TEST_CASE(of_two_given_gradients_neither_is_written_to) {
  const Tensor x = leaf({1, 2}), u = x * 2, p = leaf({0, 0}), q = leaf({0, 0});
  const Tensor g = tensor({1., 2.}, {.dtype = kFloat64}), h = tensor({3., 4.}, {.dtype = kFloat64});
  autograd::backward({u + p, u + q}, {g, h});
  BOOST_TEST(values(x.grad()) == Values({8, 12}));
  BOOST_TEST(values(g) == Values({1, 2}));
  BOOST_TEST(values(h) == Values({3, 4}));
}

BOOST_AUTO_TEST_CASE(recorded_gradients_add_up_and_keep_their_elements) {
  const Tensor x = leaf({1, 2}), y = (x * x).sum();
  y.backward({.create_graph = true});
  const Tensor first = x.grad();
  y.backward({.create_graph = true});
  BOOST_TEST(values(x.grad()) == Values({4, 8}));
  const Tensor second = x.grad();
  y.backward();
  BOOST_TEST(values(x.grad()) == Values({6, 12}));
  BOOST_TEST(values(first) == Values({2, 4}));
  BOOST_TEST(values(second) == Values({4, 8}));
}

BOOST_AUTO_TEST_CASE(a_gradient_that_grows_in_place_changes_its_version) {
  const Tensor x = leaf({1, 2}), y = (x * x).sum();
  y.backward({.retain_graph = true});
  const Tensor g = x.grad();
  const auto version = g.version();
  y.backward();
  BOOST_TEST(g.version() == version + 1);
}

BOOST_AUTO_TEST_CASE(a_view_that_became_a_leaf_stays_one_when_its_base_is_recorded) {
  Tensor base = ones({4}, {.dtype = kFloat64}), view = base.narrow(0, 0, 2);
  view.requires_grad_();
  base.mul_(leaf({1, 2, 3, 4}));
  BOOST_TEST(view.is_leaf());
}

BOOST_AUTO_TEST_CASE(a_view_of_a_view_made_without_recording_is_not_changed_with_it) {
  const Tensor x = leaf({1, 2, 3}) * 2;
  Tensor view;
  {
    const autograd::NoGrad off;
    view = x.narrow(0, 0, 2);
  }
  Tensor part = view.narrow(0, 0, 1);
  CHECK_RAISES(AutogradError, "A view was created in no_grad mode", part.mul_(leaf({2})));
}

BOOST_AUTO_TEST_CASE(retained_gradients_add_up_and_are_the_tensors_own) {
  const Tensor x = leaf({1, 2});
  Tensor y = x * 2;
  y.retain_grad();
  const Tensor g = tensor({1., 3.}, {.dtype = kFloat64});
  y.backward(g, {.retain_graph = true});
  y.grad().mul_(10);
  BOOST_TEST(values(g) == Values({1, 3}));
  y.backward(g);
  BOOST_TEST(values(y.grad()) == Values({11, 33}));
}

BOOST_AUTO_TEST_CASE(a_function_may_save_an_output_that_it_changed_and_holds_nothing_afterwards) {
  const auto before = memory::stats().live_bytes;
  {
    const Tensor x = leaf({1, 2});
    OnePlus::apply(x).sum().backward();
    BOOST_TEST(values(x.grad()) == Values({1, 1}));
    const Tensor never_run = OnePlus::apply(x);
  }
  if (default_device().is_cpu()) BOOST_TEST(memory::stats().live_bytes == before);
}

BOOST_AUTO_TEST_SUITE_END()
