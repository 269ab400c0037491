// A softmax whose rare classes are in clusters.
#include <boost/test/unit_test.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tendril/autograd/gradcheck.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/autograd/ops/reduce.h"
#include "tendril/nn/adaptive_softmax.h"
#include "tendril/tensor/creation.h"
#include "tendril/tensor/raw.h"
#include "tests/errors.h"
#include "tests/nn/layer_golden.h"
#include "tests/seed.h"

BOOST_AUTO_TEST_SUITE(adaptive_softmax)

using namespace tendril;
using nn::AdaptiveLogSoftmaxWithLoss;
using tendril::testing::Golden;
using tendril::testing::says;
using tendril::testing::test_seed;

namespace {

const Golden& golden() {
  static const Golden file(TENDRIL_TEST_DATA "/adaptive_softmax.txt");
  return file;
}

AdaptiveLogSoftmaxWithLoss layer(const std::string& name, DType dtype) {
  return name == "two" ? AdaptiveLogSoftmaxWithLoss(9, 20, {6, 12}, {.div_value = 2, .head_bias = true, .dtype = dtype})
                       : AdaptiveLogSoftmaxWithLoss(4, 20, {15}, {.dtype = dtype});
}

}  // namespace

BOOST_AUTO_TEST_CASE(log_probabilities_losses_and_gradients_equal_pytorchs) {
  const Tensor target = golden().get("target");
  for (const DType dtype : {kFloat64, kFloat32}) {
    for (const std::string name : {"two", "one"}) {
      AdaptiveLogSoftmaxWithLoss made = layer(name, dtype);
      AdaptiveLogSoftmaxWithLoss softmax = std::move(made);  // layers move with their parameters' names
      const Tensor x = golden().get(name + ".x", dtype).requires_grad_();
      std::vector<std::pair<std::string, Tensor>> leaves{{"x", x}};
      for (auto& [key, parameter] : softmax.named_parameters()) {
        raw::copy_(parameter, golden().get(name + "." + key, dtype));
        leaves.emplace_back(key, parameter);
      }
      check_layer(
          golden(), name, dtype, [&] { return softmax(x, target).output; }, leaves, 5);
      const testing::Tolerance close(dtype, 5);
      BOOST_TEST(testing::difference(softmax(x, target.to(kInt32)).loss, golden().get(name + ".loss"), close.rtol,
                                     close.atol) == "");
      BOOST_TEST(testing::difference(softmax.log_prob(x), golden().get(name + ".log_prob"), close.rtol, close.atol) ==
                 "");
      BOOST_TEST(equal(softmax.predict(x), golden().get(name + ".predict")));
      BOOST_TEST(!softmax.predict(x).requires_grad());
    }
  }
}

BOOST_AUTO_TEST_CASE(gradients_agree_with_differences) {
  AdaptiveLogSoftmaxWithLoss softmax(4, 7, {2, 4}, {.div_value = 1.5, .head_bias = true, .dtype = kFloat64});
  const Tensor target = tensor({6, 0, 3, 1, 2}, {.dtype = kInt64});
  std::vector<Tensor> inputs{randn({5, 4}, {.dtype = kFloat64})};
  for (const Tensor& parameter : softmax.parameters()) inputs.push_back(parameter);
  const auto f = [&](const std::vector<Tensor>& in) { return std::vector<Tensor>{softmax(in[0], target).output}; };
  const auto first = autograd::gradcheck(f, inputs), second = autograd::gradgradcheck(f, inputs);
  BOOST_TEST(first.ok, first.message);
  BOOST_TEST(second.ok, second.message);
}

BOOST_AUTO_TEST_CASE(probabilities_of_all_classes_sum_to_one_and_hold_those_of_targets) {
  const AdaptiveLogSoftmaxWithLoss softmax(8, 30, {5, 11, 20}, {.div_value = 2, .dtype = kFloat64});
  const Tensor x = randn({40, 8}, {.dtype = kFloat64}) * 3;
  const Tensor all = softmax.log_prob(x);
  BOOST_TEST(allclose(all.exp().sum({1}), ones({40}, {.dtype = kFloat64}), 1e-12, 0));
  const Tensor target = randint(0, 30, {40});
  BOOST_TEST(allclose(softmax(x, target).output, all.gather(1, target.unsqueeze(1)).squeeze(1), 1e-12, 0));
  BOOST_TEST(equal(softmax.predict(x), all.argmax(1)));
}

BOOST_AUTO_TEST_CASE(a_single_row_and_no_row_are_taken) {
  const AdaptiveLogSoftmaxWithLoss softmax(4, 20, {15});
  const Tensor x = randn({4});
  const auto [output, loss] = softmax(x, tensor(17));
  BOOST_TEST(output.dim() == 0);
  BOOST_TEST(loss.item<float>() == -output.item<float>());
  BOOST_TEST((softmax(randn({0, 4}), zeros({0}, {.dtype = kInt64})).output.sizes() == Dims{0}));
}

BOOST_AUTO_TEST_CASE(initial_values_follow_the_generator_and_names_are_pytorchs) {
  Generator one(test_seed()), two(test_seed());
  AdaptiveLogSoftmaxWithLoss a(16, 30, {5, 11}, {.generator = one}), b(16, 30, {5, 11});
  b.reset_parameters(two);
  std::string names;
  for (const auto& [name, parameter] : a.named_parameters()) names += name + " ";
  BOOST_TEST(names == "head.weight tail.0.0.weight tail.0.1.weight tail.1.0.weight tail.1.1.weight ");
  for (const auto& [name, parameter] : a.state_dict()) BOOST_TEST(equal(parameter, b.state_dict().at(name)), name);
  BOOST_TEST(a.to_string().starts_with("AdaptiveLogSoftmaxWithLoss(16, 30, cutoffs=[5, 11]"), a.to_string());
}

BOOST_AUTO_TEST_CASE(hooks_see_both_results) {
  AdaptiveLogSoftmaxWithLoss softmax(4, 20, {15});
  std::size_t outputs = 0, gradients = 0;
  softmax.register_forward_hook(
      [&](const nn::Module&, const std::vector<Tensor>&, std::vector<Tensor>& out) { outputs = out.size(); });
  softmax.register_full_backward_hook(
      [&](const nn::Module&, std::vector<Tensor>&, const std::vector<Tensor>& out) { gradients = out.size(); });
  softmax(randn({3, 4}, {.requires_grad = true}), tensor({1, 16, 2})).loss.backward();
  BOOST_TEST(outputs == 2u);
  BOOST_TEST(gradients == 2u);
}

BOOST_AUTO_TEST_CASE(what_does_not_fit_is_refused) {
  const auto made = [](std::vector<int64_t> cutoffs, double div_value = 4) {
    AdaptiveLogSoftmaxWithLoss(16, 20, cutoffs, {.div_value = div_value});
  };
  BOOST_CHECK_EXCEPTION(made({}), Error, says("AdaptiveLogSoftmaxWithLoss", "cutoffs", "none"));
  BOOST_CHECK_EXCEPTION(made({5, 5}), Error, says("cutoffs", "5 after 5", "19"));
  BOOST_CHECK_EXCEPTION(made({0}), Error, says("cutoffs", "0 after 0"));
  BOOST_CHECK_EXCEPTION(made({20}), Error, says("cutoffs", "20 after 0", "19"));
  BOOST_CHECK_EXCEPTION(made({5}, 0), Error, says("div_value", "0", "positive"));
  BOOST_CHECK_EXCEPTION(made({5, 10}, 8), Error, says("div_value", "8", "cluster 1", "at least 1"));
  const AdaptiveLogSoftmaxWithLoss softmax(4, 20, {15});
  const Tensor x = randn({3, 4});
  BOOST_CHECK_EXCEPTION(softmax(x, tensor({1, 20, 2})), IndexError, says("target", "20", "0 to 19"));
  BOOST_CHECK_EXCEPTION(softmax(x, tensor({1, -100, 2})), IndexError, says("target", "-100", "0 to 19"));
  BOOST_CHECK_EXCEPTION(softmax(x, tensor({1, 2})), ShapeError, says("target", "[2]", "[3, 4]"));
  BOOST_CHECK_EXCEPTION(softmax(x, tensor({1.0, 2.0, 3.0})), DTypeError, says("target", "float", "int64"));
  BOOST_CHECK_EXCEPTION(softmax(randn({3, 5}), tensor({1, 2, 3})), ShapeError, says("forward", "[3, 5]", "4"));
  BOOST_CHECK_EXCEPTION(softmax.log_prob(randn({4})), ShapeError, says("log_prob", "[4]"));
  BOOST_CHECK_EXCEPTION(softmax.predict(Tensor()), Error, says("predict", "undefined"));
}

BOOST_AUTO_TEST_SUITE_END()
