#include "tendril/autograd/saved.h"

#include <ctime>
#include <latch>
#include <thread>

#include "tendril/autograd/backward.h"
#include "tendril/autograd/grad_mode.h"
#include "tendril/autograd/history.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/tensor/creation.h"
#include "tests/autograd/raises.h"

BOOST_AUTO_TEST_SUITE(saved)

using namespace tendril;

namespace {
Tensor leaf() { return tensor({1., 2., 3., 4.}, {.requires_grad = true}); }

/// Weak: counts destructions of a storage through its deleter.
Tensor watched(bool& freed) {
  static float memory[4] = {1, 2, 3, 4};
  freed = false;
  return from_blob(memory, {4}, {}, [&freed](void*) { freed = true; });
}
}  // namespace

BOOST_AUTO_TEST_CASE(every_in_place_operation_bumps_the_version_by_one_for_all_views) {
  Tensor x = ones({2, 2});
  const Tensor row = x[0], detached = x.detach();
  BOOST_TEST(x.version() == 0);
  x.add_(1);
  x[1].mul_(2);
  x.zero_();
  x.copy_(ones({2}));
  x.clamp_(0, 1);
  x.masked_fill_(x > 0, 3);
  BOOST_TEST(x.version() == 6);
  BOOST_TEST(row.version() == 6);
  BOOST_TEST(detached.version() == 6);
  BOOST_TEST(x.clone().version() == 0);
}

BOOST_AUTO_TEST_CASE(a_changed_input_is_named_with_its_versions) {
  const Tensor x = leaf();
  Tensor y = x + 1;
  const Tensor z = y * y;
  y.add_(1);
  CHECK_RAISES(AutogradError,
               "one of the variables needed for gradient computation has been modified by an inplace operation: "
               "float32 [4], which is output 0 of AddBackward, is at version 1; expected version 0 instead. "
               "It was saved by MulBackward.",
               z.sum().backward());
}

BOOST_AUTO_TEST_CASE(a_changed_output_is_named) {
  const Tensor x = leaf();
  Tensor y = x.exp();
  y.mul_(2);
  CHECK_RAISES(AutogradError, "float32 [4], which is output 0 of ExpBackward, is at version 1; expected version 0",
               y.sum().backward());
}

BOOST_AUTO_TEST_CASE(a_change_through_a_view_or_under_no_grad_is_seen_too) {
  const Tensor x = leaf();
  Tensor y = x + 1;
  const Tensor z = y.square();
  {
    const NoGrad no_grad;
    y[0].fill_(7);
  }
  CHECK_RAISES(AutogradError, "is at version 1; expected version 0", z.sum().backward());
}

BOOST_AUTO_TEST_CASE(a_change_of_what_nobody_needs_is_fine) {
  const Tensor x = leaf();
  Tensor y = x * 2;
  const Tensor z = y + 1;
  y.add_(1);
  z.sum().backward();
  BOOST_TEST(x.grad().to_vector<float>() == std::vector<float>(4, 2));
}

BOOST_AUTO_TEST_CASE(only_operands_that_are_needed_are_saved) {
  const DefaultDeviceGuard here(kCPU);  // where memory can be watched
  bool freed = false;
  Tensor y;
  const Tensor x = leaf();
  {
    const Tensor constant = watched(freed);
    y = x * 2 + constant;
  }
  BOOST_TEST(freed);
  {
    const Tensor constant = watched(freed);
    y = x * constant;
  }
  BOOST_TEST(!freed);
  y = {};
  BOOST_TEST(freed);
}

BOOST_AUTO_TEST_CASE(what_was_saved_is_freed_by_the_run) {
  const DefaultDeviceGuard here(kCPU);  // where memory can be watched
  bool freed = false;
  const Tensor x = leaf();
  Tensor y;
  {
    const Tensor constant = watched(freed);
    y = (x * constant).sum();
  }
  y.backward({.retain_graph = true});
  BOOST_TEST(!freed);
  y.backward();
  BOOST_TEST(freed);
}

BOOST_AUTO_TEST_CASE(a_saved_output_does_not_keep_its_graph_alive) {
  bool freed = false;
  {
    Tensor x = watched(freed);
    x.requires_grad_();
    const Tensor y = x.clone().exp().sigmoid().softmax(0);
  }
  BOOST_TEST(freed);
}

BOOST_AUTO_TEST_CASE(a_view_saved_before_its_base_is_overwritten_does_not_keep_the_graph_alive) {
  bool freed = false;
  {
    Tensor x = watched(freed);
    x.requires_grad_();
    Tensor base = x * 1;
    const Tensor view = base.view({2, 2});
    const Tensor y = view * view;
    base.copy_(y.view({4}));
    BOOST_TEST(base.requires_grad());
  }
  BOOST_TEST(freed);
}

BOOST_AUTO_TEST_CASE(a_step_with_what_was_made_of_the_tensor_itself_leaks_nothing) {
  const DefaultDeviceGuard here(kCPU);  // where memory can be watched
  const Tensor w = leaf();
  using Step = std::function<void(Tensor & b)>;
  const std::vector<std::pair<const char*, Step>> steps = {
      {"add_", [&](Tensor& b) { b.add_(b * w); }},
      {"sub_", [&](Tensor& b) { b.sub_(b * w); }},
      {"mul_", [&](Tensor& b) { b.mul_(b * w); }},
      {"div_", [&](Tensor& b) { b.div_(b * w); }},
      {"copy_", [&](Tensor& b) { b.copy_(b * w); }},
      {"far behind", [&](Tensor& b) { b.add_(((b * w).exp() + 1).sqrt().sum() * w); }},
      {"after another step",
       [&](Tensor& b) {
         const Tensor m = b * w;
         b.add_(1);
         b.add_(m);
       }},
      {"of a tensor with another owner",
       [&](Tensor& b) {
         const Tensor same = b;  // NOLINT(performance-unnecessary-copy-initialization): it is the other owner
         b.add_(b * w);
         b.add_(b * w * b);
       }},
      {"through a view", [&](Tensor& b) { b.slice(0, 1).add_((b * w).slice(0, 1)); }},
      {"through a view of which the tensor is the base",
       [&](Tensor& b) {
         b.view({2, 2}).mul_((b * w).view({2, 2}));
       }},
      {"many times",
       [&](Tensor& b) {
         for (int i = 0; i < 50; ++i) b.add_(b * w + b);
       }},
  };
  for (const auto& [name, step] : steps) {
    for (const bool intermediate : {false, true}) {
      bool freed = false;
      {
        Tensor b = watched(freed);
        if (intermediate) b.copy_(w * 0.5);
        step(b);
        BOOST_TEST(b.requires_grad());
        BOOST_TEST(!freed);
      }
      BOOST_TEST(freed, name << (intermediate ? ", part of a graph" : ""));
    }
  }
}

BOOST_AUTO_TEST_CASE(steps_of_two_tensors_in_turn_take_no_longer_as_the_graph_grows) {
  const auto seconds_of_a_step = [](int steps) {
    const auto now = [] { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; };
    const Tensor w = leaf();
    Tensor state = zeros({4}), a = zeros({4}), b = zeros({4}), rows = zeros({steps, 4});
    const std::vector<Tensor> other_owners = {a, b};
    const double start = now();
    for (int i = 0; i < steps; ++i) {
      state = (state * w).tanh();
      a.add_(state);
      b.add_(state);
      rows.select(0, i).copy_(state);
    }
    return (now() - start) / steps;
  };
  seconds_of_a_step(100);
  const double few = seconds_of_a_step(200);
  BOOST_TEST(seconds_of_a_step(6400) < 10 * few);  // a walk through the whole graph for each would make it 32 times
}

BOOST_AUTO_TEST_CASE(and_is_still_refused_in_backward) {
  const Tensor w = leaf();
  Tensor b = w * 2;
  b.add_(b * w);
  CHECK_RAISES(AutogradError, "is at version 1; expected version 0 instead. It was saved by MulBackward.",
               b.sum().backward());
}

BOOST_AUTO_TEST_CASE(a_tensor_that_is_forgotten_while_it_is_freed_is_released_once) {
  for (int round = 0; round < 2000; ++round) {
    bool freed = false;
    {
      const Tensor x = watched(freed);
      autograd::SavedTensor saved;
      saved.save(x);
      std::latch both(2);
      std::thread other([&] {
        both.arrive_and_wait();
        saved.reset();
      });
      both.arrive_and_wait();
      saved.forget(*x.impl());
      other.join();
      BOOST_TEST_REQUIRE(!freed);
    }
    BOOST_TEST_REQUIRE(freed);
  }
}

BOOST_AUTO_TEST_SUITE_END()
