#include <boost/test/unit_test.hpp>
#include <cmath>

#include "tendril/autograd/backward.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/nn/loss.h"
#include "tests/errors.h"
#include "tests/make.h"
#include "tests/nn/layer_golden.h"

BOOST_AUTO_TEST_SUITE(more_losses)

using tendril::DType;
using tendril::Error;
using tendril::LossReduction;
using tendril::ShapeError;
using tendril::Tensor;
using tendril::testing::says;
namespace nn = tendril::nn;
namespace make = tendril::make;

BOOST_AUTO_TEST_CASE(values_and_gradients_equal_pytorchs) {
  const tendril::testing::Golden golden(TENDRIL_TEST_DATA "/more_losses.txt");
  for (const DType dtype : {tendril::kFloat64, tendril::kFloat32}) {
    const auto get = [&](const char* name) { return golden.get(name, dtype); };
    const auto check = [&](const std::string& name, const std::vector<std::string>& inputs, const auto& loss) {
      std::vector<std::pair<std::string, Tensor>> leaves;
      std::vector<Tensor> in;
      for (const std::string& input : inputs) {
        in.push_back(golden.get(input, dtype).requires_grad_());
        leaves.emplace_back(input, in.back());
      }
      // (Gradients of probabilities near 0 and 1 are large: their relative error counts.)
      check_layer(
          golden, name, dtype, [&] { return loss(in); }, leaves, 5);
    };
    const Tensor y = get("y"), weight = get("weight"), positive = get("positive"), probs = get("probs");
    const Tensor sign = golden.get("sign");
    for (const auto& [word, r] : {std::pair{"none", LossReduction::none}, std::pair{"mean", LossReduction::mean},
                                  std::pair{"sum", LossReduction::sum}}) {
      const std::string end = std::string(".") + word;
      const LossReduction reduction = r;
      using In = const std::vector<Tensor>&;
      check("bce" + end, {"x"}, [&](In in) { return nn::BCELoss({.reduction = reduction})(in[0], y); });
      check("bce_weight" + end, {"x"},
            [&](In in) { return nn::BCELoss({.weight = weight, .reduction = reduction})(in[0], y); });
      check("bce_logits" + end, {"logits", "y"},
            [&](In in) { return nn::BCEWithLogitsLoss({.reduction = reduction})(in[0], in[1]); });
      check("bce_logits_weights" + end, {"logits", "y"}, [&](In in) {
        return nn::BCEWithLogitsLoss({.weight = weight, .pos_weight = positive, .reduction = reduction})(in[0], in[1]);
      });
      check("l1" + end, {"a", "b"}, [&](In in) { return nn::L1Loss(reduction)(in[0], in[1]); });
      check("smooth_l1" + end, {"a", "b"},
            [&](In in) { return nn::SmoothL1Loss({.reduction = reduction})(in[0], in[1]); });
      check("smooth_l1_half" + end, {"a", "b"},
            [&](In in) { return nn::SmoothL1Loss({.beta = 0.5, .reduction = reduction})(in[0], in[1]); });
      check("huber" + end, {"a", "b"}, [&](In in) { return nn::HuberLoss({.reduction = reduction})(in[0], in[1]); });
      check("huber_half" + end, {"a", "b"},
            [&](In in) { return nn::HuberLoss({.delta = 0.5, .reduction = reduction})(in[0], in[1]); });
      check("kl" + end, {"log_probs"}, [&](In in) { return nn::KLDivLoss({.reduction = reduction})(in[0], probs); });
      check("kl_log" + end, {"log_probs", "a"},
            [&](In in) { return nn::KLDivLoss({.reduction = reduction, .log_target = true})(in[0], in[1]); });
      check("cosine" + end, {"a", "b"}, [&](In in) {
        return nn::CosineEmbeddingLoss({.margin = -0.2, .reduction = reduction})(in[0], in[1], sign);
      });
      check("triplet" + end, {"a", "b", "c"},
            [&](In in) { return nn::TripletMarginLoss({.reduction = reduction})(in[0], in[1], in[2]); });
      check("triplet_options" + end, {"a", "b", "c"}, [&](In in) {
        return nn::TripletMarginLoss({.margin = 2, .p = 3, .eps = 1e-3, .swap = true, .reduction = reduction})(
            in[0], in[1], in[2]);
      });
    }
    check("kl.batchmean", {"log_probs"},
          [&](const std::vector<Tensor>& in) { return nn::KLDivLoss({.batchmean = true})(in[0], probs); });
    check("cosine_similarity", {"a", "b"},
          [&](const std::vector<Tensor>& in) { return tendril::cosine_similarity(in[0], in[1]); });
  }
}

BOOST_AUTO_TEST_CASE(half_types_are_computed_in_float32) {
  const Tensor x = make::full({2}, 3, tendril::kBFloat16), y = make::full({2}, 1, tendril::kBFloat16);
  BOOST_TEST((tendril::l1_loss(x, y).dtype() == tendril::kBFloat16));
  BOOST_TEST(tendril::huber_loss(x, y).item<double>() == 1.5);
}

BOOST_AUTO_TEST_CASE(weights_are_buffers) {
  const nn::BCEWithLogitsLoss loss({.pos_weight = make::ones({3})});
  BOOST_TEST(loss.named_buffers()[0].first == "pos_weight");
  BOOST_TEST(nn::HuberLoss({.reduction = LossReduction::sum}).to_string() == "HuberLoss(reduction=sum)");
}

BOOST_AUTO_TEST_CASE(what_does_not_fit_is_refused) {
  const Tensor x = make::ones({2, 3}), y = make::ones({3});
  BOOST_CHECK_EXCEPTION(tendril::l1_loss(x, y), ShapeError, says("l1_loss", "[2, 3]", "[3]"));
  BOOST_CHECK_EXCEPTION(tendril::huber_loss(x, x, {.delta = 0}), Error, says("huber_loss", "delta", "0"));
  BOOST_CHECK_EXCEPTION(tendril::smooth_l1_loss(x, x, {.beta = -1}), Error, says("smooth_l1_loss", "beta", "-1"));
  BOOST_CHECK_EXCEPTION(tendril::kl_div(x, make::ones({2, 3}, tendril::kInt64)), tendril::DTypeError,
                        says("kl_div", "int64"));
  BOOST_CHECK_EXCEPTION(tendril::binary_cross_entropy(x, x, {.weight = make::ones({2})}), ShapeError,
                        says("binary_cross_entropy", "weight", "[2]"));
  BOOST_CHECK_EXCEPTION(tendril::cosine_embedding_loss(x, x, make::ones({3})), ShapeError,
                        says("cosine_embedding_loss", "[3]"));
  BOOST_CHECK_EXCEPTION(tendril::triplet_margin_loss(x, x, x, {.margin = 0}), Error,
                        says("triplet_margin_loss", "margin"));
  if (tendril::default_device().is_cpu()) {
    BOOST_CHECK_EXCEPTION(tendril::binary_cross_entropy(x * 2.0, x), Error, says("[0, 1]", "with_logits"));
  }
}

BOOST_AUTO_TEST_CASE(losses_are_twice_differentiable_where_they_are_0) {
  const Tensor x = make::ones({1}).requires_grad_(), y = make::ones({1});
  for (const Tensor& loss : {tendril::huber_loss(x, y, {.delta = 2}), tendril::smooth_l1_loss(x, y, {.beta = 2})}) {
    const Tensor g = tendril::autograd::grad({loss}, {x}, {}, {.create_graph = true})[0];
    const double curvature = tendril::autograd::grad({g.sum()}, {x})[0].item<double>();
    BOOST_TEST((curvature == 1 || curvature == 0.5));
  }
  for (const double p : {1.0, 1.5, 2.0, 3.0}) {
    const Tensor anchor = make::ones({1, 2}).requires_grad_();
    tendril::triplet_margin_loss(anchor, anchor.detach(), make::zeros({1, 2}), {.margin = 5, .p = p, .eps = 0})
        .backward();
    for (const double g : anchor.grad().to_vector<double>()) BOOST_TEST(std::isfinite(g));
  }
}

BOOST_AUTO_TEST_CASE(small_probabilities_and_large_halves_keep_their_digits) {
  const double loss = tendril::binary_cross_entropy(make::full({1}, 1e-10), make::zeros({1})).item<double>();
  BOOST_TEST(std::abs(loss - 1e-10) < 1e-16);
  const Tensor big = make::full({1, 2}, 300, tendril::kFloat16);
  BOOST_TEST(std::abs(tendril::cosine_similarity(big, big).item<double>() - 1) < 1e-2);
  const Tensor none = make::zeros({1, 2}, tendril::kFloat16).requires_grad_();
  const Tensor cosine = tendril::cosine_similarity(none, big);
  cosine.sum().backward();
  BOOST_TEST(cosine.item<double>() == 0);
}

BOOST_AUTO_TEST_SUITE_END()
