#include "tendril/nn/loss.h"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tendril/autograd/backward.h"
#include "tendril/tensor/creation.h"
#include "tendril/tensor/raw.h"
#include "tests/errors.h"
#include "tests/make.h"
#include "tests/nn/layer_golden.h"

BOOST_AUTO_TEST_SUITE(loss)

using tendril::cross_entropy;
using tendril::DType;
using tendril::DTypeError;
using tendril::Error;
using tendril::IndexError;
using tendril::LossReduction;
using tendril::mse_loss;
using tendril::nll_loss;
using tendril::ShapeError;
using tendril::Tensor;
using tendril::testing::Golden;
using tendril::testing::says;
namespace nn = tendril::nn;
namespace make = tendril::make;
namespace raw = tendril::raw;

namespace {

constexpr int64_t kIgnored = -7;
constexpr std::pair<const char*, LossReduction> kReductions[] = {
    {"none", LossReduction::none}, {"mean", LossReduction::mean}, {"sum", LossReduction::sum}};

const Golden& golden() {
  static const Golden file(TENDRIL_TEST_DATA "/losses.txt");
  return file;
}

}  // namespace

BOOST_AUTO_TEST_CASE(classification_losses_and_gradients_equal_pytorchs) {
  for (DType dtype : {tendril::kFloat64, tendril::kFloat32}) {
    for (const std::string shape : {"rows", "pixels", "one"}) {
      const Tensor scores = golden().get(shape + ".scores", dtype).requires_grad_();
      const Tensor target = golden().get(shape + ".target"), some = golden().get(shape + ".some");
      const Tensor weight = golden().get(shape + ".weight", dtype);
      for (const auto& [name, reduction] : kReductions) {
        const auto check = [&, at = shape + "." + name](const char* which, const auto& loss) {
          check_layer(golden(), at + "." + which, dtype, loss, {{"scores", scores}});
        };
        check("nll", [&] { return nll_loss(scores, target, {.reduction = reduction}); });
        check("nll_all", [&] {
          return nll_loss(scores, some, {.weight = weight, .reduction = reduction, .ignore_index = kIgnored});
        });
        check("ce", [&] { return cross_entropy(scores, target, {.reduction = reduction}); });
        check("ce_ignored",
              [&] { return cross_entropy(scores, some, {.reduction = reduction, .ignore_index = kIgnored}); });
        check("ce_smooth",
              [&] { return cross_entropy(scores, target, {.reduction = reduction, .label_smoothing = 0.2}); });
        check("ce_all", [&] {
          return nn::CrossEntropyLoss(
              {.weight = weight, .reduction = reduction, .ignore_index = kIgnored, .label_smoothing = 0.2})(scores,
                                                                                                            some);
        });
        check("nll_all", [&] {
          return nn::NLLLoss({.weight = weight, .reduction = reduction, .ignore_index = kIgnored})(scores, some);
        });
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(targets_may_be_distributions_over_the_classes) {
  const Golden soft(TENDRIL_TEST_DATA "/soft_targets.txt");
  for (DType dtype : {tendril::kFloat64, tendril::kFloat32}) {
    for (const std::string shape : {"rows", "pixels", "one"}) {
      const Tensor scores = soft.get(shape + ".scores", dtype).requires_grad_();
      const Tensor likely = soft.get(shape + ".likely", dtype).requires_grad_();
      const Tensor weight = soft.get(shape + ".weight", dtype);
      for (const auto& [name, reduction] : kReductions) {
        const std::string at = shape + "." + name;
        check_layer(soft, at + ".plain", dtype, [&] { return cross_entropy(scores, likely, {.reduction = reduction}); },
                    {{"scores", scores}, {"likely", likely}});
        check_layer(soft, at + ".all", dtype,
                    [&] {
                      return nn::CrossEntropyLoss({.weight = weight, .reduction = reduction, .label_smoothing = 0.2})(
                          scores, likely);
                    },
                    {{"scores", scores}, {"likely", likely}});
      }
    }
  }
  const Tensor scores = make::ones({2, 3});
  BOOST_CHECK_EXCEPTION(cross_entropy(scores, make::ones({2, 4})), ShapeError,
                        says("cross_entropy", "[2, 3]", "[2, 4]"));
  BOOST_CHECK_EXCEPTION(cross_entropy(scores, raw::cast(scores, tendril::kFloat64)), DTypeError,
                        says("cross_entropy", "float64", "float32"));
  BOOST_CHECK_EXCEPTION(cross_entropy(scores, scores, {.ignore_index = 1}), Error,
                        says("cross_entropy", "ignore_index"));
}

BOOST_AUTO_TEST_CASE(squared_errors_and_gradients_equal_pytorchs) {
  for (DType dtype : {tendril::kFloat64, tendril::kFloat32}) {
    const Tensor x = golden().get("mse.x", dtype).requires_grad_();
    const Tensor target = golden().get("mse.target", dtype).requires_grad_();
    for (const auto& [name, reduction] : kReductions) {
      check_layer(golden(), std::string("mse.") + name, dtype, [&] { return mse_loss(x, target, reduction); },
                  {{"x", x}, {"target", target}});
      check_layer(golden(), std::string("mse.") + name, dtype, [&] { return nn::MSELoss(reduction)(x, target); },
                  {{"x", x}, {"target", target}});
    }
  }
}

BOOST_AUTO_TEST_CASE(where_no_target_counts_the_mean_is_nan_and_its_gradient_zero) {
  const Tensor scores = raw::cast(tendril::randn({5, 4}), tendril::kFloat64).requires_grad_();
  const Tensor nothing = make::full({5}, kIgnored, tendril::kInt64);
  check_layer(golden(), "nothing", tendril::kFloat64,
              [&] { return cross_entropy(scores, nothing, {.ignore_index = kIgnored}); }, {{"scores", scores}});
  const Tensor sum = cross_entropy(scores, nothing,
                                   {.reduction = LossReduction::sum, .ignore_index = kIgnored, .label_smoothing = 0.1});
  BOOST_TEST(sum.item<double>() == 0);
}

BOOST_AUTO_TEST_CASE(an_ignored_row_may_hold_infinities) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  const Tensor scores = make::from_data(std::vector<double>{0, 1, -inf, 0}, {2, 2}).requires_grad_();
  const Tensor loss = nll_loss(scores, tendril::tensor({1, -100}));
  BOOST_TEST(loss.item<double>() == -1);
  loss.backward();
  BOOST_TEST(scores.grad().to_vector<double>() == (std::vector<double>{0, -1, 0, 0}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(large_scores_do_not_overflow) {
  const Tensor scores = make::from_data(std::vector<float>{1e4F, -1e4F, 0}, {1, 3}).requires_grad_();
  const Tensor loss = cross_entropy(scores, tendril::tensor({1}));
  BOOST_TEST(loss.item<float>() == 2e4F);
  loss.backward();
  BOOST_TEST(scores.grad().to_vector<float>() == (std::vector<float>{1, -1, 0}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(the_recorded_gradient_equals_the_fast_one) {
  const Tensor scores = raw::cast(golden().get("rows.scores"), tendril::kFloat32).requires_grad_();
  const Tensor loss = cross_entropy(scores, golden().get("rows.some"), {.ignore_index = kIgnored});
  const Tensor fast = tendril::autograd::grad({loss}, {scores}, {}, {.retain_graph = true})[0];
  const Tensor recorded = tendril::autograd::grad({loss}, {scores}, {}, {.create_graph = true})[0];
  BOOST_TEST(tendril::testing::difference(fast, recorded, 1e-6, 1e-7) == "");
}

BOOST_AUTO_TEST_CASE(they_print_their_options_and_hold_their_weight_as_a_buffer) {
  BOOST_TEST(nn::CrossEntropyLoss().to_string() == "CrossEntropyLoss(reduction=mean)");
  BOOST_TEST(nn::NLLLoss({.reduction = LossReduction::sum, .ignore_index = 0}).to_string() ==
             "NLLLoss(reduction=sum, ignore_index=0)");
  BOOST_TEST(nn::MSELoss(LossReduction::none).to_string() == "MSELoss(reduction=none)");
  const nn::CrossEntropyLoss weighted({.weight = make::ones({3}), .label_smoothing = 0.1});
  BOOST_TEST(weighted.named_buffers().at(0).first == "weight");
  BOOST_TEST(weighted.to_string() == "CrossEntropyLoss(reduction=mean, label_smoothing=0.1)");
}

BOOST_AUTO_TEST_CASE(what_does_not_fit_is_refused) {
  const Tensor scores = make::ones({2, 3});
  const Tensor target = tendril::tensor({0, 2});
  BOOST_CHECK_EXCEPTION(cross_entropy(scores, tendril::tensor({0, 3})), IndexError,
                        says("cross_entropy", "target 3", "3 classes"));
  BOOST_CHECK_EXCEPTION(nll_loss(scores, tendril::tensor({-1, 0})), IndexError,
                        says("nll_loss", "target -1", "3 classes"));
  BOOST_CHECK_EXCEPTION(cross_entropy(scores, tendril::tensor({0, 1, 2})), ShapeError,
                        says("cross_entropy", "[2, 3]", "[2]", "[3]"));
  BOOST_CHECK_EXCEPTION(cross_entropy(make::ones({}), target), ShapeError, says("cross_entropy", "[]"));
  BOOST_CHECK_EXCEPTION(cross_entropy(scores, make::ones({2})), DTypeError,
                        says("cross_entropy", "int64", "target", "float32"));
  BOOST_CHECK_EXCEPTION(cross_entropy(target, target), DTypeError, says("cross_entropy", "floating", "int64"));
  BOOST_CHECK_EXCEPTION(cross_entropy(scores, target, {.weight = make::ones({2})}), ShapeError,
                        says("cross_entropy", "weight", "[3]", "[2]"));
  BOOST_CHECK_EXCEPTION(cross_entropy(scores, target, {.weight = make::ones({3}, tendril::kFloat64)}), DTypeError,
                        says("cross_entropy", "weight", "float64", "float32"));
  BOOST_CHECK_EXCEPTION(cross_entropy(scores, target, {.label_smoothing = 1.5}), Error,
                        says("cross_entropy", "label_smoothing", "1.5"));
  BOOST_CHECK_EXCEPTION(nn::CrossEntropyLoss({.label_smoothing = -1}), Error, says("CrossEntropyLoss", "-1"));
  BOOST_CHECK_EXCEPTION(mse_loss(scores, make::ones({3})), ShapeError, says("mse_loss", "[2, 3]", "[3]"));
  BOOST_CHECK_EXCEPTION(mse_loss(scores, Tensor()), Error, says("mse_loss", "undefined"));
}

BOOST_AUTO_TEST_SUITE_END()
