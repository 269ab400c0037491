#include "tendril/nn/adaptive_softmax.h"

#include <cmath>
#include <utility>

#include "tendril/autograd/grad_mode.h"
#include "tendril/autograd/ops/indexing.h"
#include "tendril/autograd/ops/join.h"
#include "tendril/autograd/ops/loss.h"
#include "tendril/autograd/ops/pointwise.h"

namespace tendril::nn {

namespace {

constexpr const char* kName = "AdaptiveLogSoftmaxWithLoss";

/// The cutoffs and, behind them, the number of classes.
std::vector<int64_t> checked(int64_t n_classes, std::vector<int64_t> cutoffs) {
  TENDRIL_CHECK(!cutoffs.empty(), kName, ": cutoffs: got none, expected one or more");
  int64_t before = 0;
  for (const int64_t cutoff : cutoffs) {
    TENDRIL_CHECK(cutoff > before && cutoff < n_classes, kName, ": cutoffs: got ", cutoff, " after ", before,
                  ", expected growing numbers from 1 to n_classes - 1 = ", n_classes - 1);
    before = cutoff;
  }
  cutoffs.push_back(n_classes);
  return cutoffs;
}

LinearOptions linear_options(const AdaptiveLogSoftmaxOptions& o, bool bias) {
  return {.bias = bias, .dtype = o.dtype, .device = o.device, .generator = o.generator};
}

ModuleList clusters(int64_t in_features, const std::vector<int64_t>& cutoffs, const AdaptiveLogSoftmaxOptions& o) {
  TENDRIL_CHECK(o.div_value > 0, kName, ": div_value: got ", o.div_value, ", expected a positive number");
  ModuleList list;
  for (std::size_t i = 0; i + 1 < cutoffs.size(); ++i) {
    const double inner =
        std::floor(static_cast<double>(in_features) / std::pow(o.div_value, static_cast<double>(i + 1)));
    TENDRIL_CHECK(inner >= 1 && inner <= 1e15, kName, ": div_value: got ", o.div_value, ", which leaves cluster ", i,
                  " an inner size of ", inner, ", expected at least 1");
    const auto size = static_cast<int64_t>(inner);
    Linear inwards(in_features, size, linear_options(o, false));  // drawn before the other
    list.push_back(Sequential(std::move(inwards), Linear(size, cutoffs[i + 1] - cutoffs[i], linear_options(o, false))));
  }
  return list;
}

void check_rows(const char* function, const Tensor& x, int64_t in_features) {
  TENDRIL_CHECK(x.defined(), kName, "::", function, ": x is an undefined tensor");
  TENDRIL_CHECK_AS(ShapeError, x.dim() == 2 && x.size(1) == in_features, kName, "::", function, ": x: got ", x.sizes(),
                   ", expected [N, ", in_features, "]");
}

}  // namespace

AdaptiveLogSoftmaxWithLoss::AdaptiveLogSoftmaxWithLoss(int64_t in_features, int64_t n_classes,
                                                       const std::vector<int64_t>& cutoffs,
                                                       const AdaptiveLogSoftmaxOptions& options)
    : AdaptiveLogSoftmaxWithLoss(in_features, checked(n_classes, cutoffs), options) {}

AdaptiveLogSoftmaxWithLoss::AdaptiveLogSoftmaxWithLoss(int64_t in_features, std::vector<int64_t> cutoffs,
                                                       const AdaptiveLogSoftmaxOptions& options)
    : head(in_features, cutoffs[0] + static_cast<int64_t>(cutoffs.size()) - 1,
           linear_options(options, options.head_bias)),
      tail(clusters(in_features, cutoffs, options)),
      in_features_(in_features),
      cutoffs_(std::move(cutoffs)) {
  register_module("head", head);
  register_module("tail", tail);
}

AdaptiveLogSoftmaxResult AdaptiveLogSoftmaxWithLoss::forward(const Tensor& x, const Tensor& target) const {
  const bool one = x.defined() && x.dim() == 1;
  const Tensor rows = one ? x.unsqueeze(0) : x;
  check_rows("forward", rows, in_features_);
  TENDRIL_CHECK(target.defined(), kName, ": target is an undefined tensor");
  TENDRIL_CHECK_AS(DTypeError, target.dtype() == kInt64 || target.dtype() == kInt32, kName, ": target: got ",
                   name_of(target.dtype()), ", expected int64 or int32");
  TENDRIL_CHECK_AS(ShapeError, one ? target.dim() == 0 : target.sizes() == Dims{x.size(0)}, kName, ": target: got ",
                   target.sizes(), " beside x of ", x.sizes(), ", expected one class for each row");
  const Tensor classes = (one ? target.unsqueeze(0) : target).to(kInt64);
  if (classes.numel() > 0) {
    const auto least = classes.min().item<int64_t>(), most = classes.max().item<int64_t>();
    TENDRIL_CHECK_AS(IndexError, least >= 0 && most < cutoffs_.back(), kName, ": target: got ",
                     least < 0 ? least : most, ", expected classes from 0 to ", cutoffs_.back() - 1);
  }

  // Of each row first what the head says: of the class itself, or of its cluster, to which the class within is added.
  const int64_t frequent = cutoffs_[0];
  Tensor places = classes;
  for (std::size_t i = 0; i + 1 < cutoffs_.size(); ++i) {
    places = where(classes >= cutoffs_[i], frequent + static_cast<int64_t>(i), places);
  }
  const CrossEntropyOptions each{.reduction = LossReduction::none};
  Tensor losses = cross_entropy(head(rows), places, each);
  for (std::size_t i = 0; i + 1 < cutoffs_.size(); ++i) {
    const Tensor inside = places.eq(frequent + static_cast<int64_t>(i)).nonzero().squeeze(1);
    if (inside.numel() == 0) continue;
    const Tensor scores = tail.at<Sequential>(i)(rows.index_select(0, inside));
    const Tensor within = classes.index_select(0, inside) - cutoffs_[i];
    losses = losses.index_add(0, inside, cross_entropy(scores, within, each));
  }
  return {.output = one ? -losses.squeeze(0) : -losses, .loss = losses.mean()};
}

Tensor AdaptiveLogSoftmaxWithLoss::log_prob(const Tensor& x) const {
  check_rows("log_prob", x, in_features_);
  const Tensor first = head(x).log_softmax(1);
  std::vector<Tensor> parts{first.narrow(1, 0, cutoffs_[0])};
  for (std::size_t i = 0; i + 1 < cutoffs_.size(); ++i) {
    const Tensor cluster = first.narrow(1, cutoffs_[0] + static_cast<int64_t>(i), 1);
    parts.push_back(tail.at<Sequential>(i)(x).log_softmax(1) + cluster);
  }
  return cat(parts, 1);
}

Tensor AdaptiveLogSoftmaxWithLoss::predict(const Tensor& x) const {
  check_rows("predict", x, in_features_);
  const autograd::NoGrad no_grad;
  // No class of a cluster is more probable than its cluster, so a frequent class that is ahead in the head stays so.
  Tensor best = head(x).argmax(1);
  const Tensor open = (best >= cutoffs_[0]).nonzero().squeeze(1);
  if (open.numel() > 0) best.index_put_({open}, log_prob(x.index_select(0, open)).argmax(1));
  return best;
}

void AdaptiveLogSoftmaxWithLoss::reset_parameters(Generator& generator) {
  head.reset_parameters(generator);
  for (std::size_t i = 0; i < tail.size(); ++i) {
    for (const auto& [name, module] : tail.at<Sequential>(i).named_modules()) {
      if (auto* const layer = dynamic_cast<Linear*>(module)) layer->reset_parameters(generator);
    }
  }
}

std::string AdaptiveLogSoftmaxWithLoss::extra_repr() const {
  std::string cutoffs;
  for (std::size_t i = 0; i + 1 < cutoffs_.size(); ++i) cutoffs += (i ? ", " : "") + std::to_string(cutoffs_[i]);
  return std::to_string(in_features_) + ", " + std::to_string(cutoffs_.back()) + ", cutoffs=[" + cutoffs + "]";
}

}  // namespace tendril::nn
