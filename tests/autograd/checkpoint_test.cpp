#include "tendril/autograd/checkpoint.h"

#include <thread>

#include "tendril/autograd/backward.h"
#include "tendril/autograd/gradcheck.h"
#include "tendril/autograd/ops/dropout.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/tensor/creation.h"
#include "tests/autograd/leaves.h"
#include "tests/autograd/raises.h"
#include "tests/seed.h"

BOOST_AUTO_TEST_SUITE(checkpoint)

using namespace tendril;
using autograd::checkpoint;
using tendril::testing::test_seed;
using testing::leaf;
using testing::Values;
using testing::values;

namespace {

constexpr auto per_element = boost::test_tools::per_element();

}  // namespace

BOOST_AUTO_TEST_CASE(the_function_runs_again_in_backward_and_not_before) {
  int runs = 0;
  const Tensor x = leaf({0.5, 2}), w = leaf({3, -1}), twin = leaf({0.5, 2}), twin_w = leaf({3, -1});
  const auto f = [&](const Tensor& in) {
    ++runs;
    return (in * w).tanh().exp();
  };
  const Tensor y = checkpoint(f, x);
  BOOST_TEST(runs == 1);
  y.square().sum().backward();
  BOOST_TEST(runs == 2);
  (twin * twin_w).tanh().exp().square().sum().backward();
  BOOST_TEST(values(x.grad()) == values(twin.grad()), per_element);
  BOOST_TEST(values(w.grad()) == values(twin_w.grad()), per_element);  // which the function captured
  CHECK_RAISES(AutogradError, "second time", y.sum().backward());
}

BOOST_AUTO_TEST_CASE(a_function_that_detaches_what_it_is_given_again_freezes_no_leaf) {
  int runs = 0;
  const Tensor x = leaf({0.5, 2});
  const auto f = [&](const Tensor& in) {
    Tensor y = in * in;
    if (++runs == 2) in.detach_();
    return y;
  };
  checkpoint(f, x).sum().backward();
  BOOST_TEST(runs == 2);
  BOOST_TEST(values(x.grad()) == Values({1, 4}), per_element);
}

BOOST_AUTO_TEST_CASE(nothing_that_it_computes_is_kept) {
  int alive = 0;
  std::vector<float> memory(4, 0.5f);
  const auto f = [&](const Tensor& in) {
    ++alive;
    const Tensor between = from_blob(memory.data(), {4}, {}, [&](void*) { --alive; }).to(in.device());
    return in * (in.device().is_cpu() ? between : between.clone());  // saves both
  };
  const Tensor x = ones({4}, {.requires_grad = true});
  const Tensor y = checkpoint(f, x);
  BOOST_TEST(alive == 0);
  y.sum().backward({.retain_graph = true});
  BOOST_TEST(alive == 0);
  y.sum().backward();
  BOOST_TEST(alive == 0);
  BOOST_TEST(x.grad().to_vector<double>() == Values(4, 1.0), per_element);
}

BOOST_AUTO_TEST_CASE(under_no_grad_it_is_a_call) {
  int runs = 0;
  const Tensor x = leaf({1});
  const NoGrad no_grad;
  BOOST_TEST(!checkpoint([&](const Tensor& in) { return ++runs, in.exp(); }, x).requires_grad());
  BOOST_TEST(runs == 1);
}

BOOST_AUTO_TEST_CASE(inputs_and_results_are_of_any_type) {
  const Tensor x = leaf({1, 2});
  const std::vector<Tensor> more{leaf({3, 4}), leaf({5, 6})};
  const auto f = [](const Tensor& a, const std::vector<Tensor>& others, double p, const Tensor& none) {
    BOOST_TEST(!none.defined());
    return std::pair(a * others[0] * p, std::vector<Tensor>{others[1].exp()});
  };
  const auto [product, rest] = checkpoint(f, x, more, 2.0, Tensor());
  (product.sum() + rest[0].log().sum()).backward();
  BOOST_TEST(values(x.grad()) == Values({6, 8}));
  BOOST_TEST(values(more[0].grad()) == Values({2, 4}));
  BOOST_TEST(values(more[1].grad()) == Values({1, 1}), per_element);
}

BOOST_AUTO_TEST_CASE(random_numbers_are_drawn_again) {
  Generator mine(test_seed());
  const autograd::CheckpointOptions options{.generators = {&mine}};
  const auto f = [&](const Tensor& in) { return dropout(dropout(in * in, 0.5, default_generator()), 0.3, mine).exp(); };
  const Tensor x = ones({64}, {.dtype = kFloat64, .requires_grad = true}), twin = x.detach().requires_grad_();
  const auto state = default_generator().state();
  const Tensor y = checkpoint(options, f, x);
  const auto after = default_generator().state(), mine_after = mine.state();
  y.sum().backward();
  BOOST_TEST((default_generator().state() == after && mine.state() == mine_after));
  default_generator().set_state(state);
  mine.manual_seed(test_seed());
  f(twin).sum().backward();
  BOOST_TEST(values(x.grad()) == values(twin.grad()), per_element);
  CHECK_RAISES(Error, "a generator is null", checkpoint({.generators = {nullptr}}, f, x));
}

BOOST_AUTO_TEST_CASE(second_derivatives_and_nested_ones_are_those_of_the_plain_call) {
  const auto plain = [](const Tensor& x, const Tensor& w) { return (x * w).tanh() * x.exp(); };
  const auto nested = [plain](const Tensor& x, const Tensor& w) {
    const auto inner = [plain](const Tensor& a, const Tensor& b) { return checkpoint(plain, a.sin(), b) * a; };
    return checkpoint(inner, x * x, w).cos();
  };
  const auto f = [&](const std::vector<Tensor>& in) { return std::vector<Tensor>{checkpoint(nested, in[0], in[1])}; };
  const std::vector<Tensor> at{leaf({0.5, -1}), leaf({2, 0.3})};
  const auto first = autograd::gradcheck(f, at), second = autograd::gradgradcheck(f, at);
  BOOST_TEST(first.ok, first.message);
  BOOST_TEST(second.ok, second.message);

  const auto grads = [&](auto&& call) {
    const Tensor y = call();
    const auto one = autograd::grad({y.sum()}, at, {}, {.create_graph = true});
    auto two = autograd::grad({(one[0] * one[1]).sum()}, at);
    two.insert(two.end(), one.begin(), one.end());
    return two;
  };
  const auto with = grads([&] { return f(at)[0]; });
  const auto without = grads([&] {
    const Tensor a = at[0] * at[0];
    return (plain(a.sin(), at[1]) * a).cos();
  });
  for (std::size_t i = 0; i < with.size(); ++i) {
    BOOST_TEST(values(with[i]) == values(without[i]), boost::test_tools::tolerance(1e-14) << per_element);
  }
}

BOOST_AUTO_TEST_CASE(a_gradient_within_the_function_works) {
  const auto penalty = [](const Tensor& x) {
    const Tensor inner = x.detach().requires_grad_();
    const Tensor slope = autograd::grad({(inner.exp() * inner).sum()}, {inner}, {}, {.create_graph = true})[0];
    return x * slope.square();
  };
  const Tensor x = leaf({0.5, 1.5}), twin = leaf({0.5, 1.5});
  checkpoint(penalty, x).sum().backward();
  penalty(twin).sum().backward();
  BOOST_TEST(values(x.grad()) == values(twin.grad()), per_element);
}

BOOST_AUTO_TEST_CASE(parts_of_the_result_can_be_run_by_several_threads) {
  const Tensor x = leaf({0.5, 2}), z = leaf({1, 3});
  const auto f = [](const Tensor& a, const Tensor& b) { return std::pair(a.exp().tanh(), b.exp().sin()); };
  for (int i = 0; i < 20; ++i) {
    const auto [p, q] = checkpoint(f, x, z);
    std::thread other([root = p.sum()] { root.backward(); });
    q.sum().backward();
    other.join();
  }
  const Tensor twin = leaf({0.5, 2});
  for (int i = 0; i < 20; ++i) twin.exp().tanh().sum().backward();
  BOOST_TEST(values(x.grad()) == values(twin.grad()), per_element);
}

BOOST_AUTO_TEST_CASE(a_function_that_does_something_else_is_found) {
  int run = 0;
  const Tensor x = leaf({1, 2});
  const auto with = [&](auto f) {
    run = 0;
    return checkpoint(f, x).sum();
  };
  const Tensor fewer = with([&](const Tensor& in) { return run++ ? in * 2 : in.exp().exp(); });
  CHECK_RAISES(AutogradError, "saved 0 tensors for backward when it was run again, and 2 the first time",
               fewer.backward());
  const Tensor more = with([&](const Tensor& in) { return run++ ? in.exp().exp() : in.exp(); });
  CHECK_RAISES(AutogradError, "more than the 1 tensors of the first time", more.backward());
  const Tensor other = with([&](const Tensor& in) { return run++ ? in.sum().exp() + in * 0 : in.exp(); });
  CHECK_RAISES(AutogradError, "saved float64 [] on", other.backward());
  const Tensor thrower = with([&](const Tensor& in) {
    TENDRIL_CHECK(!run++, "no second time");
    return in.exp();
  });
  CHECK_RAISES(Error, "no second time", thrower.backward());
}

BOOST_AUTO_TEST_CASE(what_was_changed_since_is_found) {
  const Tensor x = leaf({1, 2}), w = leaf({3, 4});
  const auto changed = [](Tensor& target) {
    const NoGrad no_grad;
    target.add_(1);
  };
  Tensor between = x * 1;
  const Tensor by_input = checkpoint([](const Tensor& in) { return in.exp(); }, between).sum();
  changed(between);
  CHECK_RAISES(AutogradError, "It was saved by checkpoint", by_input.backward());
  const Tensor by_capture = checkpoint([&](const Tensor& in) { return in * w; }, x).sum();
  Tensor captured = w;
  changed(captured);
  CHECK_RAISES(AutogradError, "checkpoint: a tensor that the function saves has been modified by an inplace operation",
               by_capture.backward());
  const Tensor by_itself = checkpoint(
                               [&](const Tensor& in) {
                                 Tensor a = in * 1;
                                 Tensor b = a.exp() * a;
                                 changed(a);
                                 return b;
                               },
                               x)
                               .sum();
  CHECK_RAISES(AutogradError, "is at version 1; expected version 0", by_itself.backward());
}

BOOST_AUTO_TEST_CASE(a_change_in_place_of_an_input_by_its_result_does_not_leak) {
  static float memory[2] = {1, 2};
  bool freed = false;
  {
    Tensor x = from_blob(memory, {2}, {}, [&](void*) { freed = true; });
    const Tensor w = ones({2}, {.device = kCPU, .requires_grad = true});
    x.mul_(w);
    x.mul_(checkpoint([](const Tensor& in) { return in.exp(); }, x));
  }
  BOOST_TEST(freed);
}

BOOST_AUTO_TEST_SUITE_END()
