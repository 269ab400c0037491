#include "tendril/autograd/ops/loss.h"

#include "tendril/autograd/ops/ctc_loss.h"
#include "tendril/tensor/raw.h"
#include "tests/autograd/samples/samples.h"

namespace tendril::samples {

namespace {

constexpr int64_t kIgnored = -7;

/// Targets for scores of this shape; with `ignore`, every third does not count.
Tensor targets(const Tensor& scores, bool ignore) {
  Dims sizes = scores.sizes();
  const int64_t classes = sizes[sizes.size() == 1 ? 0 : 1];
  sizes.erase(sizes.size() == 1 ? 0 : 1);
  std::vector<int64_t> values(static_cast<std::size_t>(numel_of(sizes)));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = ignore && i % 3 == 1 ? kIgnored : static_cast<int64_t>(i * i + 1) % classes;
  }
  return raw::from_data(values, sizes).to(default_device());
}

Tensor class_weights(const Tensor& scores) {
  std::vector<double> values(static_cast<std::size_t>(scores.size(scores.dim() == 1 ? 0 : 1)));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = 0.5 + static_cast<double>(i);
  return raw::from_data(values, {static_cast<int64_t>(values.size())}).to(scores.dtype()).to(default_device());
}

}  // namespace

std::vector<OpSample> loss_samples() {
  const std::vector<std::vector<Dims>> scores = {{{4, 3}}, {{2, 3, 2}}, {{3}}, {{1, 1}}};
  const std::vector<std::vector<Dims>> with_none = {{{4, 3}}, {{2, 3, 2, 1}}, {{3}}, {{0, 3}}};
  std::vector<OpSample> all;
  for (const auto& [name, reduction] : {std::pair{"none", LossReduction::none}, std::pair{"mean", LossReduction::mean},
                                        std::pair{"sum", LossReduction::sum}}) {
    const auto& shapes = reduction == LossReduction::mean ? scores : with_none;  // a mean of nothing is NaN
    for (const bool full : {false, true}) {
      const std::string rest = std::string(", ") + name + (full ? ", with weights and ignored targets" : "");
      const auto weight = [full](const Tensor& x) { return full ? class_weights(x) : Tensor(); };
      all.push_back({"nll_loss" + rest,
                     [=](const auto& x) {
                       return std::vector{
                           nll_loss(x[0], targets(x[0], full),
                                    {.weight = weight(x[0]), .reduction = reduction, .ignore_index = kIgnored})};
                     },
                     shapes});
      all.push_back({"cross_entropy" + rest,
                     [=](const auto& x) {
                       return std::vector{cross_entropy(x[0], targets(x[0], full),
                                                        {.weight = weight(x[0]),
                                                         .reduction = reduction,
                                                         .ignore_index = kIgnored,
                                                         .label_smoothing = full ? 0.3 : 0.0})};
                     },
                     shapes});
    }
    all.push_back({std::string("nll_loss with ignored targets, ") + name,
                   [=](const auto& x) {
                     return std::vector{
                         nll_loss(x[0], targets(x[0], true), {.reduction = reduction, .ignore_index = kIgnored})};
                   },
                   shapes});
    all.push_back({std::string("mse_loss, ") + name,
                   [=](const auto& x) { return std::vector{mse_loss(x[0], x[1], reduction)}; },
                   {{{2, 3}, {2, 3}}, {{}, {}}, {{1, 1}, {1, 1}}}});
  }
  all.push_back({"ctc_loss",
                 [](const auto& x) {
                   const int64_t steps = x[0].size(0), batch = x[0].size(1);
                   const std::vector<int64_t> inputs(static_cast<std::size_t>(batch), steps);
                   const std::vector<int64_t> labels(static_cast<std::size_t>(batch), 2);
                   const Tensor targets = raw::full({batch, 2}, 1, kInt64, x[0].device());
                   return std::vector{
                       ctc_loss(x[0], targets, inputs, labels, {.blank = 0, .reduction = LossReduction::none})};
                 },
                 {{{4, 2, 3}}, {{3, 1, 2}}, {{5, 0, 2}}}});
  return all;
}

}  // namespace tendril::samples
