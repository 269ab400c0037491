#include "tendril/autograd/ops/loss_pairs.h"

#include <cmath>

#include "tendril/autograd/autocast.h"
#include "tendril/autograd/history.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/tensor/raw.h"

namespace tendril {

namespace {

void check_pair(const char* op, const Tensor& x, const char* x_name, const Tensor& y, const char* y_name) {
  detail::check_defined(x, op, x_name);
  detail::check_defined(y, op, y_name);
  TENDRIL_CHECK_AS(DTypeError, is_floating(x.dtype()) && is_floating(y.dtype()), op, ": ", x_name, " is ", x.dtype(),
                   ", ", y_name, " is ", y.dtype(), ", expected floating dtypes");
  TENDRIL_CHECK(x.device() == y.device(), op, ": ", y_name, " is on ", y.device(), ", expected the device of ", x_name,
                ", ", x.device());
  TENDRIL_CHECK_AS(ShapeError, x.sizes() == y.sizes(), op, ": ", x_name, " and ", y_name, " have shapes ", x.sizes(),
                   " and ", y.sizes(), ", expected one shape (expand one if they are meant to broadcast)");
}

void check_weight(const char* op, const char* name, const Tensor& weight, const Tensor& x) {
  if (!weight.defined()) return;
  TENDRIL_CHECK_AS(DTypeError, is_floating(weight.dtype()), op, ": ", name, " is ", weight.dtype(),
                   ", expected a floating dtype");
  TENDRIL_CHECK(weight.device() == x.device() || (weight.dim() == 0 && weight.device().is_cpu()), op, ": ", name,
                " is on ", weight.device(), ", expected x's device ", x.device(), " (or one number on the cpu)");
  bool fits = weight.dim() <= x.dim();
  for (int d = 0; fits && d < weight.dim(); ++d) {
    const int64_t size = weight.sizes()[weight.dim() - 1 - d];
    fits = size == 1 || size == x.sizes()[x.dim() - 1 - d];
  }
  TENDRIL_CHECK_AS(ShapeError, fits, op, ": ", name, " has shape ", weight.sizes(),
                   ", expected one that broadcasts to ", x.sizes());
}

Tensor reduced(const Tensor& each, LossReduction reduction) {
  if (reduction == LossReduction::none) return each;
  return reduction == LossReduction::mean ? each.mean() : each.sum();
}

/// The dtype that a loss of x and y is computed in: their common one, of which half types are computed in float32. The
/// result alone is rounded.
DType wide_type(const Tensor& x, const Tensor& y) { return computed_in(raw::result_type(x, y)); }

/// x, with `value` for elements of weight 0: these do not count, even if they are infinite or NaN.
Tensor counted(const Tensor& x, const Tensor& weight, double value) {
  return weight.defined() ? x.masked_fill(raw::compare(Compare::eq, weight, 0), value) : x;
}

/// Within an Autocast losses of the half types stay float32.
bool stays_float(const Tensor& x, const Tensor& y) {
  return autograd::detail::autocast_on() && (autograd::detail::is_raised(x) || autograd::detail::is_raised(y));
}

Tensor bounded_log(const Tensor& log) { return raw::clamp(log, -100, {}); }

/// Saves x and the target. Bounds as PyTorch's: gradients where x is 0 or 1 are large, not NaN.
struct BinaryCrossEntropyBackward : autograd::NodeOf<BinaryCrossEntropyBackward, 2, 2> {
  static constexpr const char* kName = "BinaryCrossEntropyBackward";
  static constexpr double kSmallest = 1e-12F;  // in PyTorch float32's 1e-12 for all dtypes

  void backward(const Tensor& g, std::span<Tensor> dx) {
    const Tensor x = saved(0), target = saved(1);
    if (needs_grad(0)) dx[0] = g * (x - target) / ((1.0 - x) * x).clamp(kSmallest, {});
    if (needs_grad(1)) dx[1] = g * ((-x).log1p() - x.log());
  }
};

/// Each element's loss. The square is of the difference, not of its size, which has no second derivative at 0.
Tensor huber(const Tensor& x, const Tensor& target, double delta) {
  const Tensor d = x - target, inner = d.clamp(-delta, delta);
  return inner.square() * 0.5 + (d.abs() - inner.abs()) * delta;
}

Tensor distance(const Tensor& x, const Tensor& y, double p, double eps) { return (x - y + eps).norm(p, {-1}); }

}  // namespace

Tensor binary_cross_entropy(const Tensor& given, const Tensor& target, const BinaryCrossEntropyOptions& options) {
  const char* op = "binary_cross_entropy";
  check_pair(op, given, "x", target, "the target");
  check_weight(op, "weight", options.weight, given);
  const Tensor x = counted(given, options.weight, 0.5);
  if (stays_float(x, target))
    return binary_cross_entropy(autograd::detail::raised(x), autograd::detail::raised(target), options);
  if (const DType wide = wide_type(x, target); x.dtype() != wide || target.dtype() != wide) {
    return binary_cross_entropy(x.to(wide), target.to(wide), options).to(raw::result_type(x, target));
  }
  if (x.device().is_cpu()) {
    const NoGrad no_grad;
    const Tensor inside = x.ge(0).logical_and(x.le(1));
    TENDRIL_CHECK(x.numel() == 0 || inside.all().item<bool>(), op,
                  ": x: got an element outside of [0, 1], expected probabilities (of logits, use "
                  "binary_cross_entropy_with_logits)");
  }
  const Tensor rest = raw::binary(Binary::sub, 1.0, target);
  const Tensor log_x = bounded_log(raw::unary(Unary::log, x));
  const Tensor log_rest = bounded_log(raw::unary(Unary::log1p, raw::unary(Unary::neg, x)));  // exact for small x, too
  Tensor each =
      raw::binary(Binary::add, raw::binary(Binary::mul, target, log_x), raw::binary(Binary::mul, rest, log_rest));
  each = raw::unary(Unary::neg, each);
  if (auto* n = autograd::track<BinaryCrossEntropyBackward>(each, x, target)) {
    n->save(0, x);
    n->save(1, target);
  }
  if (options.weight.defined()) each = each * options.weight.detach();
  return reduced(each, options.reduction);
}

Tensor binary_cross_entropy_with_logits(const Tensor& given, const Tensor& target,
                                        const BinaryCrossEntropyWithLogitsOptions& options) {
  const char* op = "binary_cross_entropy_with_logits";
  check_pair(op, given, "the logits", target, "the target");
  check_weight(op, "weight", options.weight, given);
  check_weight(op, "pos_weight", options.pos_weight, given);
  const Tensor logits = counted(given, options.weight, 0);
  if (stays_float(logits, target))
    return binary_cross_entropy_with_logits(autograd::detail::raised(logits), autograd::detail::raised(target),
                                            options);
  if (const DType wide = wide_type(logits, target); logits.dtype() != wide || target.dtype() != wide) {
    return binary_cross_entropy_with_logits(logits.to(wide), target.to(wide), options)
        .to(raw::result_type(logits, target));
  }
  Tensor unlikely = (-logits).softplus();  // -log(sigmoid(logits))
  if (options.pos_weight.defined()) unlikely = unlikely * ((options.pos_weight.detach() - 1.0) * target + 1.0);
  Tensor each = (1.0 - target) * logits + unlikely;
  if (options.weight.defined()) each = each * options.weight.detach();
  return reduced(each, options.reduction);
}

Tensor l1_loss(const Tensor& x, const Tensor& target, LossReduction reduction) {
  check_pair("l1_loss", x, "x", target, "the target");
  if (stays_float(x, target)) return l1_loss(autograd::detail::raised(x), autograd::detail::raised(target), reduction);
  if (const DType wide = wide_type(x, target); x.dtype() != wide || target.dtype() != wide) {
    return l1_loss(x.to(wide), target.to(wide), reduction).to(raw::result_type(x, target));
  }
  return reduced((x - target).abs(), reduction);
}

Tensor smooth_l1_loss(const Tensor& x, const Tensor& target, const SmoothL1LossOptions& options) {
  check_pair("smooth_l1_loss", x, "x", target, "the target");
  TENDRIL_CHECK(options.beta >= 0, "smooth_l1_loss: beta: got ", options.beta, ", expected a number of 0 or more");
  if (options.beta == 0) return l1_loss(x, target, options.reduction);
  if (stays_float(x, target))
    return smooth_l1_loss(autograd::detail::raised(x), autograd::detail::raised(target), options);
  if (const DType wide = wide_type(x, target); x.dtype() != wide || target.dtype() != wide) {
    return smooth_l1_loss(x.to(wide), target.to(wide), options).to(raw::result_type(x, target));
  }
  return reduced(huber(x, target, options.beta) / options.beta, options.reduction);
}

Tensor huber_loss(const Tensor& x, const Tensor& target, const HuberLossOptions& options) {
  check_pair("huber_loss", x, "x", target, "the target");
  TENDRIL_CHECK(options.delta > 0, "huber_loss: delta: got ", options.delta, ", expected a positive number");
  if (stays_float(x, target)) return huber_loss(autograd::detail::raised(x), autograd::detail::raised(target), options);
  if (const DType wide = wide_type(x, target); x.dtype() != wide || target.dtype() != wide) {
    return huber_loss(x.to(wide), target.to(wide), options).to(raw::result_type(x, target));
  }
  return reduced(huber(x, target, options.delta), options.reduction);
}

Tensor kl_div(const Tensor& x, const Tensor& target, const KlDivOptions& options) {
  check_pair("kl_div", x, "x", target, "the target");
  TENDRIL_CHECK_AS(ShapeError, !options.batchmean || x.dim() > 0,
                   "kl_div: x has shape [], expected a dimension for the ", "batch (batchmean)");
  if (stays_float(x, target)) return kl_div(autograd::detail::raised(x), autograd::detail::raised(target), options);
  if (const DType wide = wide_type(x, target); x.dtype() != wide || target.dtype() != wide) {
    return kl_div(x.to(wide), target.to(wide), options).to(raw::result_type(x, target));
  }
  // Unless all classes count, those of probability 0 do not: their logarithms may be infinite or NaN.
  const auto loss = [&](bool all_count) {
    const auto counted = [&](const Tensor& log, double never) {
      if (all_count) return log;
      return log.masked_fill(target.detach().eq(never).logical_and(log.detach().isfinite().logical_not()), 0);
    };
    const Tensor each = options.log_target
                            ? target.exp() * counted(target - x, -HUGE_VAL)
                            : target * target.masked_fill(target.eq(0), 1).log() - target * counted(x, 0);
    if (options.batchmean) return each.sum() / static_cast<double>(x.size(0));
    return reduced(each, options.reduction);
  };
  if (!x.device().is_cpu()) return loss(false);
  Tensor result = loss(true);
  return result.detach().isfinite().all().item<bool>() ? result : loss(false);
}

Tensor cosine_similarity(const Tensor& given_x, const Tensor& given_y, int64_t dim, double eps) {
  detail::check_defined(given_x, "cosine_similarity", "x");
  detail::check_defined(given_y, "cosine_similarity", "y");
  const Dims sizes = broadcast_shapes(given_x.sizes(), given_y.sizes(), "cosine_similarity");
  const Tensor x = given_x.expand(sizes), y = given_y.expand(sizes);
  check_pair("cosine_similarity", x, "x", y, "y");
  const int d = wrap_dim(dim, x.dim(), "cosine_similarity");
  if (const DType wide = wide_type(x, y); x.dtype() != wide || y.dtype() != wide)
    return cosine_similarity(x.to(wide), y.to(wide), dim, eps).to(raw::result_type(x, y));
  const auto length = [&](const Tensor& t) { return t.norm(2, {d}, true).clamp(eps, {}); };
  const Tensor cosine = ((x / length(x)) * (y / length(y))).sum({d});
  const Tensor excess = raw::binary(Binary::sub, cosine, raw::clamp(cosine, -1, 1));  // of rounding
  return cosine - excess;
}

Tensor cosine_embedding_loss(const Tensor& x1, const Tensor& x2, const Tensor& target,
                             const CosineEmbeddingLossOptions& options) {
  const char* op = "cosine_embedding_loss";
  check_pair(op, x1, "x1", x2, "x2");
  detail::check_defined(target, op, "the target");
  Dims expected = x1.sizes();
  const bool fits = x1.dim() == 1 || x1.dim() == 2;
  if (fits) expected.erase(x1.dim() - 1);
  TENDRIL_CHECK_AS(ShapeError, fits && target.sizes() == expected, op, ": x1 has shape ", x1.sizes(),
                   ", the target has ", target.sizes(), ", expected [N, D] and [N], or [D] and []");
  TENDRIL_CHECK(target.device() == x1.device(), op, ": the target is on ", target.device(), ", expected x1's device ",
                x1.device());
  if (stays_float(x1, x2))
    return cosine_embedding_loss(autograd::detail::raised(x1), autograd::detail::raised(x2), target, options);
  if (const DType wide = wide_type(x1, x2); x1.dtype() != wide || x2.dtype() != wide) {
    return cosine_embedding_loss(x1.to(wide), x2.to(wide), target, options).to(raw::result_type(x1, x2));
  }
  // As in PyTorch, 1e-12 is added to the squared lengths.
  const auto unit = [](const Tensor& x) { return x / x.norm(2, {-1}, true).hypot(1e-6); };
  const Tensor cosine = (unit(x1) * unit(x2)).sum({-1});
  const Tensor alike = (1.0 - cosine).masked_fill(target.ne(1), 0);
  const Tensor unlike = (cosine - options.margin).clamp(0.0, {}).masked_fill(target.ne(-1), 0);
  return reduced(alike + unlike, options.reduction);
}

Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           const TripletMarginLossOptions& options) {
  const char* op = "triplet_margin_loss";
  check_pair(op, anchor, "anchor", positive, "positive");
  check_pair(op, anchor, "anchor", negative, "negative");
  TENDRIL_CHECK_AS(ShapeError, anchor.dim() > 0, op, ": anchor has shape [], expected [..., D]");
  TENDRIL_CHECK(options.margin > 0, op, ": margin: got ", options.margin, ", expected a positive number");
  TENDRIL_CHECK(options.p > 0, op, ": p: got ", options.p, ", expected a positive number");
  if (stays_float(anchor, positive))
    return triplet_margin_loss(autograd::detail::raised(anchor), autograd::detail::raised(positive),
                               autograd::detail::raised(negative), options);
  if (const DType wide = wide_type(anchor, positive); anchor.dtype() != wide || positive.dtype() != wide) {
    return triplet_margin_loss(anchor.to(wide), positive.to(wide), negative.to(wide), options)
        .to(raw::result_type(anchor, positive));
  }
  const auto between = [&](const Tensor& x, const Tensor& y) { return distance(x, y, options.p, options.eps); };
  Tensor far = between(anchor, negative);
  if (options.swap) far = far.minimum(between(positive, negative));
  return reduced((between(anchor, positive) - far + options.margin).clamp(0.0, {}), options.reduction);
}

}  // namespace tendril
