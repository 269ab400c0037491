#include <boost/test/unit_test.hpp>
#include <cmath>

#include "tendril/autograd/backward.h"
#include "tendril/autograd/history.h"
#include "tendril/autograd/ops/attention.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/tensor/random.h"
#include "tendril/tensor/threads.h"
#include "tests/autograd/samples/samples.h"
#include "tests/golden.h"
#include "tests/make.h"
#include "tests/seed.h"

BOOST_AUTO_TEST_SUITE(gradcheck_attention)

using namespace tendril;
using tendril::testing::difference;
using tendril::testing::test_seed;

namespace {

Tensor draw(const Dims& sizes, DType dtype, uint64_t seed) {
  Generator generator(test_seed(seed));
  Tensor x = make::empty(sizes, kFloat64);
  raw::uniform_(x, -2, 2, generator);
  return x.to(dtype).requires_grad_();
}

}  // namespace

BOOST_AUTO_TEST_CASE(derivatives_of_both_orders_agree_with_differences) {
  for (const auto& sample : tendril::samples::attention_samples()) BOOST_TEST(tendril::samples::check(sample) == "");
}

/// Several blocks of queries and of keys, and parts of them.
BOOST_AUTO_TEST_CASE(by_blocks_is_what_all_weights_at_once_are) {
  if (!default_device().is_cpu()) return;  // elsewhere both are made of the same operations
  const int64_t length = 300, keys = 1100;
  Generator generator(test_seed());
  Tensor uniform = make::empty({2, 1, 1, keys}, kFloat64);
  raw::uniform_(uniform, 0, 1, generator);
  const Tensor seen = uniform.gt(0.3), one_line = make::zeros({length, 1}, kBool);
  one_line.slice(0, 0, 200).fill_(1);
  for (const DType dtype : {kFloat64, kFloat32}) {
    const std::vector<std::pair<const char*, AttentionOptions>> cases = {
        {"plain", {}},
        {"causal", {.is_causal = true}},
        {"keys hidden", {.attn_mask = seen, .scale = 0.5}},
        {"queries that see nothing", {.attn_mask = one_line}},
        {"added", {.attn_mask = (uniform * 3.0).to(dtype).masked_fill(seen.logical_not(), -HUGE_VAL)}},
        {"added, of each", {.attn_mask = draw({length, keys}, dtype, 4).detach()}}};
    for (const auto& [name, options] : cases) {
      BOOST_TEST_CONTEXT(name << " in " << name_of(dtype)) {
        const std::vector<Tensor> in = {draw({2, 2, length, 8}, dtype, 1), draw({2, 2, keys, 8}, dtype, 2),
                                        draw({2, 2, keys, 5}, dtype, 3)};
        const Tensor fused = scaled_dot_product_attention(in[0], in[1], in[2], options);
        const Tensor whole = attention_with_weights(in[0], in[1], in[2], options).output;
        const double close = dtype == kFloat64 ? 1e-11 : 2e-4;
        BOOST_TEST(difference(fused.detach(), whole.detach(), close, close / 10) == "");
        const Tensor g = draw(fused.sizes(), dtype, 5).detach();
        const auto a = autograd::grad({fused}, in, {g}), b = autograd::grad({whole}, in, {g});
        for (std::size_t i = 0; i < in.size(); ++i) BOOST_TEST(difference(a[i], b[i], close, close / 2) == "");
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(its_bits_do_not_depend_on_the_number_of_threads) {
  const std::vector<Tensor> in = {draw({3, 200, 16}, kFloat32, 1), draw({3, 600, 16}, kFloat32, 2),
                                  draw({3, 600, 16}, kFloat32, 3)};
  const auto run = [&] {
    const Tensor y = scaled_dot_product_attention(in[0], in[1], in[2], {.is_causal = true});
    std::vector<Tensor> all = autograd::grad({y.sum()}, in);
    all.push_back(y.detach());
    return all;
  };
  std::vector<Tensor> alone;
  {
    const ThreadLimit limit(1);
    alone = run();
  }
  const std::vector<Tensor> together = run();
  for (std::size_t i = 0; i < alone.size(); ++i) BOOST_TEST(raw::equal(alone[i], together[i]));
}

BOOST_AUTO_TEST_CASE(what_is_not_a_number_spreads_and_what_is_large_does_not_overflow) {
  const Tensor x = make::ones({2, 2}), large = make::full({2, 2}, 1e18);
  for (const double y : scaled_dot_product_attention(large, large, x).to_vector<double>()) BOOST_TEST(y == 1);
  const Tensor broken = x.clone();
  broken[0].fill_(NAN);
  const std::vector<double> y = scaled_dot_product_attention(broken, x, x).to_vector<double>();
  BOOST_TEST(std::isnan(y[0]));
  BOOST_TEST(y[2] == 1);
  const Tensor keys = make::ones({40, 2});  // a row of several vectors
  keys[7].fill_(NAN);
  for (const double z : scaled_dot_product_attention(x, keys, make::ones({40, 2})).to_vector<double>()) {
    BOOST_TEST(std::isnan(z));
  }
}

BOOST_AUTO_TEST_CASE(nothing_of_the_size_of_the_scores_is_kept) {
  if (!default_device().is_cpu()) return;
  const Tensor x = draw({2, 300, 4}, kFloat32, 1);
  const Tensor y = scaled_dot_product_attention(x, x, x);
  BOOST_TEST(std::string(autograd::grad_fn(y)->name()) == "AttentionBackward");
  for (const auto& saved : autograd::grad_fn(y)->saved_tensors()) {
    if (saved.defined()) BOOST_TEST(saved.unpack(*autograd::grad_fn(y)).numel() <= x.numel());
  }
}

BOOST_AUTO_TEST_SUITE_END()
