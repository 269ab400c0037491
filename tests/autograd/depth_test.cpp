#include "tendril/autograd/backward.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/tensor/creation.h"
#include "tendril/tensor/memory.h"
#include "tests/autograd/raises.h"

BOOST_AUTO_TEST_SUITE(depth)

using namespace tendril;

namespace {
constexpr int kDepth = 1'000'000;
}

BOOST_AUTO_TEST_CASE(a_chain_of_a_million_nodes_runs_and_is_freed) {
  const std::size_t before = memory::stats().live_bytes;
  {
    const Tensor x = ones({1}, {.requires_grad = true});
    Tensor y = x;
    for (int i = 0; i < kDepth; ++i) y = y * 1.0;
    y.backward();
    BOOST_TEST(x.grad().item<float>() == 1);
  }
  if (before > 0) BOOST_TEST(memory::stats().live_bytes < before + 4096);
}

BOOST_AUTO_TEST_CASE(a_chain_that_never_ran_is_freed) {
  Tensor y = ones({1}, {.requires_grad = true});
  for (int i = 0; i < kDepth; ++i) y = y.exp();
  y = {};
}

BOOST_AUTO_TEST_CASE(a_chain_of_changed_views_is_freed) {
  Tensor y = ones({2}, {.requires_grad = true}) * 1;
  for (int i = 0; i < kDepth / 10; ++i) {
    Tensor part = y[i % 2];
    part.add_(1);
  }
  y.sum().backward();
}

BOOST_AUTO_TEST_CASE(a_ladder_with_exponentially_many_paths_takes_linear_time) {
  const Tensor x = ones({1}, {.dtype = kFloat64, .requires_grad = true});
  Tensor y = x;
  for (int i = 0; i < 100; ++i) y = (y + y) * 0.5;
  y.backward();
  BOOST_TEST(x.grad().item<double>() == 1);
}

BOOST_AUTO_TEST_CASE(many_steps_do_not_grow_the_memory) {
  const Tensor x = ones({8}, {.requires_grad = true}), w = ones({8}, {.requires_grad = true});
  std::size_t after_first = 0;
  for (int i = 0; i < 1000; ++i) {
    (x * w).tanh().sum().backward();
    if (i == 0) after_first = memory::stats().live_bytes;
  }
  if (after_first > 0) BOOST_TEST(memory::stats().live_bytes == after_first);
}

BOOST_AUTO_TEST_SUITE_END()
