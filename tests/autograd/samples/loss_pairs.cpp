#include "tendril/autograd/ops/loss_pairs.h"

#include "tendril/autograd/ops/pointwise.h"
#include "tendril/tensor/raw.h"
#include "tests/autograd/samples/samples.h"

namespace tendril::samples {

std::vector<OpSample> loss_pairs_samples() {
  const std::vector<std::vector<Dims>> pairs = {{{4, 3}, {4, 3}}, {{3}, {3}}, {{1, 1}, {1, 1}}};
  const Range inside{0.15, 0.85};
  const auto each = LossReduction::none;
  const auto signs = [](const Tensor& x) {
    Dims sizes = x.sizes();
    sizes.erase(x.dim() - 1);
    std::vector<int64_t> values;
    for (int64_t i = 0; i < numel_of(sizes); ++i) values.push_back(i % 2 == 0 ? 1 : -1);
    return raw::from_data(values, sizes).to(default_device());
  };
  return {
      {"binary_cross_entropy",
       [=](const auto& x) { return std::vector{binary_cross_entropy(x[0], x[1], {.reduction = each})}; },
       pairs,
       {inside, inside}},
      {"binary_cross_entropy, mean",
       [](const auto& x) { return std::vector{binary_cross_entropy(x[0], x[1])}; },
       pairs,
       {inside, inside}},
      {"binary_cross_entropy_with_logits",
       [=](const auto& x) { return std::vector{binary_cross_entropy_with_logits(x[0], x[1], {.reduction = each})}; },
       pairs},
      {"l1_loss", [=](const auto& x) { return std::vector{l1_loss(x[0], x[1] + 5.0, each)}; }, pairs},
      {"smooth_l1_loss",
       [=](const auto& x) { return std::vector{smooth_l1_loss(x[0], x[1] * 0.1, {.beta = 0.7, .reduction = each})}; },
       pairs},
      {"huber_loss",
       [=](const auto& x) { return std::vector{huber_loss(x[0], x[1] * 0.1, {.delta = 0.7, .reduction = each})}; },
       pairs},
      {"kl_div",
       [=](const auto& x) { return std::vector{kl_div(x[0], x[1], {.reduction = each})}; },
       pairs,
       {{}, inside}},
      {"kl_div of logarithms",
       [=](const auto& x) { return std::vector{kl_div(x[0], x[1], {.reduction = each, .log_target = true})}; }, pairs},
      {"cosine_similarity", [](const auto& x) { return std::vector{cosine_similarity(x[0], x[1], -1)}; }, pairs},
      {"cosine_embedding_loss",
       [=](const auto& x) {
         return std::vector{cosine_embedding_loss(x[0], x[1], signs(x[0]), {.margin = -2, .reduction = each})};
       },
       {{{4, 3}, {4, 3}}, {{2, 2}, {2, 2}}, {{1, 2}, {1, 2}}}},
      {"triplet_margin_loss",
       [=](const auto& x) {
         return std::vector{triplet_margin_loss(x[0], x[1] + 5.0, x[2] * 0.1, {.reduction = each})};
       },
       {{{4, 3}, {4, 3}, {4, 3}}, {{3}, {3}, {3}}, {{2, 1}, {2, 1}, {2, 1}}}},
  };
}

}  // namespace tendril::samples
