// Elements that do not count, by a mask, a weight or a probability of 0, may be infinite or NaN.
#include <boost/test/unit_test.hpp>
#include <cmath>

#include "tendril/autograd/backward.h"
#include "tendril/autograd/ops/attention.h"
#include "tendril/autograd/ops/dropout.h"
#include "tendril/autograd/ops/loss.h"
#include "tendril/autograd/ops/loss_pairs.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/tensor/creation.h"
#include "tests/autograd/raises.h"
#include "tests/seed.h"

BOOST_AUTO_TEST_SUITE(uncounted)

using namespace tendril;

namespace {

const double kInfinity = HUGE_VAL, kNaN = std::nan("");

bool all_finite(const Tensor& x) { return x.isfinite().all().item<bool>(); }

/// Whether loss and gradient of x are finite.
bool finite(const Tensor& loss, const Tensor& x) {
  loss.sum().backward();
  return all_finite(loss) && all_finite(x.grad());
}

}  // namespace

BOOST_AUTO_TEST_CASE(cross_entropy_ignores_impossible_classes_of_probability_zero) {
  for (const DType dtype : {kFloat32, kFloat64}) {
    const Tensor x = tensor({{1., -kInfinity, 2.}}, {.dtype = dtype, .requires_grad = true});
    const Tensor target = tensor({{0.25, 0., 0.75}}, {.dtype = dtype});
    const Tensor loss = cross_entropy(x, target);
    const Tensor possible = tensor({{1., 2.}}, {.dtype = dtype});
    const Tensor expected = cross_entropy(possible, tensor({{0.25, 0.75}}, {.dtype = dtype}));
    BOOST_TEST(std::abs(loss.item<double>() - expected.item<double>()) < 1e-6);
    BOOST_TEST(finite(loss, x));
  }
}

BOOST_AUTO_TEST_CASE(cross_entropy_ignores_impossible_classes_of_weight_zero) {
  const Tensor weight = tensor({1., 0., 2.}, {.dtype = kFloat64});
  const Tensor x = tensor({{1., -kInfinity, 2.}, {3., -kInfinity, 1.}}, {.dtype = kFloat64, .requires_grad = true});
  const Tensor smooth = cross_entropy(x, tensor({0, 2}), {.weight = weight, .label_smoothing = 0.1});
  BOOST_TEST(finite(smooth, x), smooth);
  x.zero_grad();
  const Tensor target_of_weight_0 = cross_entropy(x, tensor({0, 1}), {.weight = weight});
  BOOST_TEST(finite(target_of_weight_0, x), target_of_weight_0);
}

BOOST_AUTO_TEST_CASE(kl_div_ignores_probabilities_of_zero) {
  const Tensor x = tensor({std::log(0.5), -kInfinity, std::log(0.5)}, {.dtype = kFloat64, .requires_grad = true});
  const Tensor target = tensor({0.5, 0., 0.5}, {.dtype = kFloat64});
  const Tensor loss = kl_div(x, target, {.reduction = LossReduction::sum});
  BOOST_TEST(std::abs(loss.item<double>()) < 1e-15);
  BOOST_TEST(finite(loss, x));
  x.zero_grad();
  const Tensor of_logs = kl_div(x, target.log(), {.reduction = LossReduction::sum, .log_target = true});
  BOOST_TEST(std::abs(of_logs.item<double>()) < 1e-15);
  BOOST_TEST(finite(of_logs, x));
}

BOOST_AUTO_TEST_CASE(elements_of_weight_zero_do_not_count) {
  const Tensor x = tensor({0.5, kNaN, kInfinity}, {.dtype = kFloat64, .requires_grad = true});
  const Tensor target = tensor({1., 0., 0.}, {.dtype = kFloat64}), weight = tensor({1., 0., 0.}, {.dtype = kFloat64});
  const Tensor loss = binary_cross_entropy_with_logits(x, target, {.weight = weight});
  BOOST_TEST(finite(loss, x));
  const Tensor y = tensor({0.5, kNaN, 2.}, {.dtype = kFloat64, .requires_grad = true});
  BOOST_TEST(finite(binary_cross_entropy(y, target, {.weight = weight}), y));
}

BOOST_AUTO_TEST_CASE(dropped_elements_are_zero) {
  for (const DType dtype : {kFloat64, kFloat32, kFloat16, kBFloat16}) {
    Generator generator(tendril::testing::test_seed());
    const Tensor x = zeros({1000}, {.dtype = dtype, .requires_grad = false}).fill_(kInfinity).requires_grad_();
    const Tensor y = dropout(x, 0.5, generator).detach();
    BOOST_TEST(y.eq(0).logical_or(y.eq(kInfinity)).all().item<bool>(), dtype);
    BOOST_TEST(y.eq(0).any().item<bool>());
    BOOST_TEST(y.eq(kInfinity).any().item<bool>());
    BOOST_TEST(dropout(x, 1, generator).detach().eq(0).all().item<bool>());
  }
}

BOOST_AUTO_TEST_CASE(gradient_of_probability_zero_is_the_same_beside_impossible_classes) {
  for (const bool beside : {false, true}) {
    const Tensor x = tensor({{1., 2.}, {0., beside ? -kInfinity : 0.}}, {.dtype = kFloat64});
    const Tensor target = tensor({{0., 1.}, {1., 0.}}, {.dtype = kFloat64, .requires_grad = true});
    cross_entropy(x, target, {.reduction = LossReduction::sum}).backward();
    BOOST_TEST(std::abs(target.grad()[0][0].item<double>() - std::log1p(std::exp(1.))) < 1e-12);
    target.zero_grad();
    kl_div(x, target, {.reduction = LossReduction::sum}).backward();
    BOOST_TEST(target.grad()[0][0].item<double>() == -1);
  }
}

BOOST_AUTO_TEST_CASE(gradient_of_ignored_logits_is_zero) {
  const Tensor weight = tensor({1., 0., 2.}, {.dtype = kFloat64});
  const CrossEntropyOptions cases[] = {
      {}, {.label_smoothing = 0.1}, {.weight = weight}, {.reduction = LossReduction::none}};
  for (const CrossEntropyOptions& options : cases) {
    for (const bool create_graph : {false, true}) {
      const Tensor x = tensor({{1., 2., 3.}, {kNaN, kInfinity, 0.}, {3., 1., 1.}}, {.dtype = kFloat64});
      x.requires_grad_();
      const Tensor loss = cross_entropy(x, tensor({0, -100, 2}), options);
      const auto dx = autograd::grad({loss.sum()}, {x}, {}, {.create_graph = create_graph})[0];
      BOOST_TEST(all_finite(loss), loss);
      BOOST_TEST(all_finite(dx), dx);
      BOOST_TEST(equal(dx[1], zeros({3}, {.dtype = kFloat64})), dx);
    }
  }
  const Tensor x = tensor({{1., 2., 3.}, {kNaN, kInfinity, 0.}}, {.dtype = kFloat64, .requires_grad = true});
  BOOST_TEST(finite(cross_entropy(x, tensor({0, 1}), {.weight = weight}), x), x.grad());
}

namespace {

/// Output and gradients of attention by the kernel, or by operations that can be recorded.
std::vector<Tensor> attend(const Tensor& query, const Tensor& key, const Tensor& value, const AttentionOptions& options,
                           bool kernel) {
  std::vector<Tensor> operands;
  for (const Tensor& x : {query, key, value}) operands.push_back(x.detach().clone().requires_grad_());
  const Tensor out = kernel ? scaled_dot_product_attention(operands[0], operands[1], operands[2], options)
                            : attention_with_weights(operands[0], operands[1], operands[2], options).output;
  const Tensor g = (arange(out.numel()).to(out.dtype()).reshape(out.sizes()) * 0.9).cos();
  std::vector<Tensor> all = autograd::grad({out}, operands, {g}, {.create_graph = !kernel});
  all.push_back(out);
  return all;
}

}  // namespace

BOOST_AUTO_TEST_CASE(attention_ignores_keys_and_values_that_a_mask_hides) {
  const int64_t queries = 5, keys = 37, hidden = 3;
  for (const DType dtype : {kFloat32, kFloat64}) {
    const auto wave = [&](const Dims& sizes, double speed) {
      return (arange(numel_of(sizes)).to(dtype).reshape(sizes) * speed).sin();
    };
    const Tensor query = wave({2, queries, 8}, 0.7), key = wave({2, keys, 8}, 1.3), value = wave({2, keys, 6}, 0.4);
    Tensor seen = ones({queries, keys}, {.dtype = kBool});
    seen.select(1, hidden).fill_(false);
    seen.select(1, keys - 1).fill_(false);
    const Tensor added = where(seen, zeros({}, {.dtype = dtype}), -kInfinity);
    for (const double odd : {kNaN, kInfinity, -kInfinity}) {
      const Tensor bad_key = key.clone(), bad_value = value.clone();
      for (const int64_t at : {hidden, keys - 1}) {
        bad_key.select(1, at).fill_(odd);
        bad_value.select(1, at).fill_(odd);
      }
      for (const bool kernel : {false, true}) {
        for (const Tensor& mask : {seen, added}) {
          const auto expected = attend(query, key, value, {.attn_mask = mask}, kernel);
          const auto result = attend(query, bad_key, bad_value, {.attn_mask = mask}, kernel);
          BOOST_TEST_CONTEXT(odd << (kernel ? ", kernel, " : ", recorded, ") << mask.dtype()) {
            for (std::size_t i = 0; i < result.size(); ++i) {
              BOOST_TEST(allclose(result[i], expected[i], 1e-4, 1e-5), i << result[i] << expected[i]);
            }
          }
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(causal_attention_ignores_later_keys_and_values) {
  const int64_t length = 6, late = 4;
  const Tensor x = (arange(length * 4).to(kFloat64).reshape({1, length, 4}) * 0.7).sin();
  const Tensor bad = x.clone();
  bad.select(1, late).fill_(kNaN);
  for (const bool kernel : {false, true}) {
    const Tensor expected = attend(x, x, x, {.is_causal = true}, kernel).back();
    const Tensor out = attend(x, bad, bad, {.is_causal = true}, kernel).back();
    BOOST_TEST(allclose(out.narrow(1, 0, late), expected.narrow(1, 0, late), 1e-12, 1e-12), out);
    BOOST_TEST(out.narrow(1, late, length - late).isnan().all().item<bool>());
    // Of a loss over earlier queries alone.
    const Tensor key = bad.clone().requires_grad_(), value = bad.clone().requires_grad_();
    const Tensor query = x.narrow(1, 0, late).clone().requires_grad_();
    const AttentionOptions causal{.is_causal = true};
    const Tensor early = kernel ? scaled_dot_product_attention(query, key, value, causal)
                                : attention_with_weights(query, key, value, causal).output;
    early.sum().backward();
    for (const Tensor& operand : {query, key, value}) BOOST_TEST(all_finite(operand.grad()), operand.grad());
  }
}

BOOST_AUTO_TEST_SUITE_END()
