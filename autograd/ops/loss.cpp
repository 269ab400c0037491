#include "tendril/autograd/ops/loss.h"

#include "tendril/autograd/autocast.h"
#include "tendril/autograd/detail/maybe_view.h"
#include "tendril/autograd/history.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/autograd/ops/softmax.h"
#include "tendril/tensor/drivers/by_index.h"
#include "tendril/tensor/drivers/reduction.h"
#include "tendril/tensor/raw.h"

namespace tendril {

namespace {

/// The targets, checked. Shapes have a 1 in the place of the classes.
struct Targets {
  Tensor index;        ///< [N, 1, d1, ...]; 0 where ignored
  Tensor ignored;      ///< bool, the same shape; undefined if none is
  Tensor weight;       ///< of each target, 0 where ignored; undefined if all are 1
  double total = 0;    ///< of the weights
  Tensor total_there;  ///< the same, 0-d, in place of `total` for targets on a device
};

/// Losses of the half types are computed in float32, of which the result alone is rounded.
bool is_half(DType dtype) { return computed_in(dtype) != dtype; }

void check_shapes(const Tensor& scores, const Tensor& target, const Tensor& weight, const char* op,
                  bool of_distributions = false) {
  detail::check_defined(scores, op, "the scores");
  detail::check_defined(target, op, "the target");
  TENDRIL_CHECK_AS(DTypeError, is_floating(scores.dtype()), op, ": expected scores of floating dtype, got ",
                   scores.dtype());
  TENDRIL_CHECK_AS(DTypeError, target.dtype() == kInt64 || of_distributions, op,
                   ": expected int64 classes as target, got ", target.dtype());
  TENDRIL_CHECK_AS(DTypeError, !of_distributions || target.dtype() == scores.dtype(), op, ": the target is ",
                   target.dtype(), ", the scores are ", scores.dtype());
  TENDRIL_CHECK(scores.device() == target.device(), op, ": the scores are on ", scores.device(), ", the target on ",
                target.device());
  TENDRIL_CHECK_AS(ShapeError, scores.dim() >= 1, op, ": expected scores of [C] or [N, C, ...], got shape []");
  Dims expected = scores.sizes();
  if (!of_distributions) expected.erase(scores.dim() == 1 ? 0 : 1);
  TENDRIL_CHECK_AS(ShapeError, target.sizes() == expected, op, ": scores of shape ", scores.sizes(),
                   " need a target of shape ", expected, ", got ", target.sizes());
  if (!weight.defined()) return;
  const int64_t classes = scores.sizes()[scores.dim() == 1 ? 0 : 1];
  TENDRIL_CHECK_AS(ShapeError, weight.dim() == 1 && weight.numel() == classes, op, ": expected a weight of [", classes,
                   "], got shape ", weight.sizes());
  const bool in_float = autograd::detail::autocast_on() && is_half(scores.dtype()) && weight.dtype() == kFloat32;
  TENDRIL_CHECK_AS(DTypeError, weight.dtype() == scores.dtype() || in_float, op, ": the weight is ", weight.dtype(),
                   ", the scores are ", scores.dtype());
  TENDRIL_CHECK(weight.device() == scores.device(), op, ": the weight is on ", weight.device(), ", the scores on ",
                scores.device());
}

/// Of targets on a device nothing is read back, as that would have to wait for it: what is counted stays there, and
/// classes are checked by the kernels that look them up.
Targets read_there(const Tensor& target, const Tensor& scores, const Tensor& weight, int64_t ignore_index,
                   IndexUse use) {
  Targets result{raw::unsqueeze(raw::contiguous(target), 1), {}, {}, 0, {}};
  const Device device = target.device();
  result.ignored = raw::compare(Compare::eq, result.index, ignore_index);
  result.index = raw::where(result.ignored, raw::scalar(0, kInt64, device), result.index);
  if (weight.defined()) {
    result.weight = raw::view(drivers::index_select(weight, 0, raw::view(result.index, {result.index.numel()}), use),
                              result.index.sizes());
    result.weight = raw::where(result.ignored, raw::scalar(0, weight.dtype(), device), result.weight);
  } else {
    result.weight = raw::cast(raw::predicate(Predicate::logical_not, result.ignored), scores.dtype());
  }
  result.total_there = drivers::reduce(Reduction::sum, result.weight);
  return result;
}

template <class Options>
Options widened(Options options) {
  if (options.weight.defined()) options.weight = options.weight.to(kFloat32);
  return options;
}

/// `target` is [N, d1, ...], `scores` [N, C, d1, ...].
Targets read(const Tensor& target, const Tensor& scores, const Tensor& weight, int64_t ignore_index, IndexUse use) {
  if (!target.device().is_cpu()) return read_there(target, scores, weight, ignore_index, use);
  const int64_t classes = scores.sizes()[1];
  Targets result{raw::unsqueeze(raw::contiguous(target), 1), {}, {}, 0, {}};
  const Tensor given = result.index;
  const int64_t* values = given.data<int64_t>();
  int64_t counted = 0;
  for (int64_t i = 0; i < given.numel(); ++i) {
    if (values[i] == ignore_index) continue;
    TENDRIL_CHECK_AS(IndexError, values[i] >= 0 && values[i] < classes, index_error_text(use, values[i], 1, classes));
    ++counted;
  }
  result.total = static_cast<double>(counted);
  if (counted < given.numel()) {
    result.ignored = raw::compare(Compare::eq, result.index, ignore_index);
    result.index = raw::where(result.ignored, raw::scalar(0, kInt64), result.index);
  }
  if (weight.defined()) {
    result.weight =
        raw::view(drivers::index_select(weight, 0, raw::view(result.index, {given.numel()})), given.sizes());
    if (result.ignored.defined()) {
      result.weight = raw::where(result.ignored, raw::scalar(0, weight.dtype()), result.weight);
    }
    result.total = drivers::reduce(Reduction::sum, result.weight).item<double>();
  }
  return result;
}

/// What a loss = sum of factor * weight * (log-probability of the target), or each summand by itself, needs of its
/// targets for backward.
struct Share {
  double factor = -1;
  bool each = false;
  bool weighted = false;
  bool factor_there = false;

  /// The gradient of each target's log-probability: [N, 1, d1, ...]. `weight` and `there` are tensors where the flags
  /// say so: the weights, and the factor where it is on a device.
  Tensor of(const Tensor& g, const Tensor& index, const Tensor& weight, const Tensor& there) const {
    Tensor picked = each ? g.unsqueeze(1) : g;
    picked = factor_there ? picked * there : picked * factor;
    if (weighted) picked = picked * weight;
    return picked.expand(index.sizes());
  }
};

/// saved(0): the targets; saved(1), saved(2): see Share.
struct NllLossBackward : autograd::NodeOf<NllLossBackward, 1, 3> {
  static constexpr const char* kName = "NllLossBackward";
  Dims sizes;
  Share share;

  void backward(const Tensor& g, std::span<Tensor> dx) {
    const Tensor index = saved(0), picked = share.of(g, index, saved(1), saved(2));
    const Tensor zeros = raw::zeros(sizes, g.dtype(), g.device());
    if (autograd::grad_enabled()) {
      dx[0] = zeros.scatter_add(1, index, picked);
    } else {
      drivers::scatter_add_(zeros, 1, index, picked);  // the same without a copy
      dx[0] = zeros;
    }
  }
};

/// nll_loss of log_softmax in three passes over the scores: forward reads them (a line's largest element and the sum of
/// exponentials, while the line is in a cache), backward reads them and writes the gradient.
/// saved(0) to saved(2): as above; the scores; the logarithm of the sum of exponentials in two parts.
struct CrossEntropyBackward : autograd::NodeOf<CrossEntropyBackward, 1, 6> {
  static constexpr const char* kName = "CrossEntropyBackward";
  Share share;

  void backward(const Tensor& g, std::span<Tensor> dx) {
    const Tensor index = saved(0), scores = saved(3), picked = share.of(g, index, saved(1), saved(2));
    if (autograd::grad_enabled()) {
      const Tensor zeros = raw::zeros(scores.sizes(), g.dtype(), g.device());
      Tensor of_all = scores.softmax(1);
      if (share.weighted) of_all = of_all.masked_fill(saved(1).eq(0), 0);  // of a target that does not count
      dx[0] = zeros.scatter_add(1, index, picked) - of_all * picked;
      return;
    }
    using raw::view_of;
    const Tensor largest = saved(4), log_sum = saved(5);
    dx[0] = raw::empty_like(scores);
    const DeviceKernels table = kernels(scores.device());
    require(table->cross_entropy_backward, "cross_entropy", *table)(
        view_of(dx[0]), view_of(scores), 1, view_of(largest), view_of(log_sum), view_of(index), view_of(picked));
  }
};

/// The log-probability of each target, as `reduction` says. `keep(share, weight, there)` is called with what backward
/// needs.
template <class Keep>
Tensor reduced(Tensor picked, const Targets& targets, LossReduction reduction, const Keep& keep) {
  const DType dtype = picked.dtype();
  if (targets.ignored.defined()) {  // not by a weight of 0: what is ignored may be infinite
    picked = raw::where(targets.ignored, raw::scalar(0, dtype), picked);
  }
  if (targets.weight.defined()) {  // nor does a weight of 0 count
    const Tensor counts = raw::compare(Compare::ne, targets.weight, 0);
    picked = raw::binary(Binary::mul, raw::where(counts, picked, raw::scalar(0, dtype)), targets.weight);
  }
  const bool mean_there = reduction == LossReduction::mean && targets.total_there.defined();
  const double factor = reduction == LossReduction::mean && !mean_there ? -1 / targets.total : -1;
  const bool each = reduction == LossReduction::none;
  picked = each ? raw::squeeze(picked, 1) : drivers::reduce(Reduction::sum, picked);
  Tensor out = raw::binary(Binary::mul, picked, factor);
  if (mean_there) out = raw::binary(Binary::div, out, targets.total_there);
  keep(out, [&](auto* n) {
    n->save(0, targets.index);
    Tensor weight = targets.weight;
    if (!weight.defined() && targets.ignored.defined()) {
      weight = raw::cast(raw::predicate(Predicate::logical_not, targets.ignored), dtype);
    }
    if (weight.defined()) n->save(1, weight);
    // Nothing counted: the mean is NaN, but no score had a part in it.
    const bool nothing = reduction == LossReduction::mean && !mean_there && targets.total == 0;
    n->share = {nothing ? 0 : factor, each, weight.defined(), mean_there};
    if (mean_there) {
      const Tensor& total = targets.total_there;
      n->save(2, raw::where(raw::compare(Compare::eq, total, 0), total, raw::binary(Binary::div, -1, total)));
    }
  });
  return out;
}

/// `log_probs` is [N, C, d1, ...].
Tensor nll(const Tensor& log_probs, const Targets& targets, LossReduction reduction, IndexUse use) {
  return reduced(drivers::gather(log_probs, 1, targets.index, use), targets, reduction,
                 [&](const Tensor& out, const auto& fill) {
                   if (auto* n = autograd::track<NllLossBackward>(out, log_probs)) {
                     fill(n);
                     n->sizes = log_probs.sizes();
                   }
                 });
}

/// `scores` is [N, C, d1, ...].
Tensor cross_entropy_of_classes(const Tensor& scores, const Targets& targets, LossReduction reduction) {
  Dims lines = scores.sizes();
  lines[1] = 1;
  const Tensor largest = raw::empty(lines, scores.dtype(), scores.device()), log_sum = raw::empty_like(largest);
  const DeviceKernels table = kernels(scores.device());
  require(table->log_sum_exp, "cross_entropy", *table)(raw::view_of(largest), raw::view_of(log_sum),
                                                       raw::view_of(scores), 1);
  // In this order: target - largest is exact where it matters.
  Tensor picked = drivers::gather(scores, 1, targets.index, IndexUse::cross_entropy);
  picked = raw::binary(Binary::sub, raw::binary(Binary::sub, picked, largest), log_sum);
  return reduced(picked, targets, reduction, [&](const Tensor& out, const auto& fill) {
    if (auto* n = autograd::track<CrossEntropyBackward>(out, scores)) {
      fill(n);
      n->save(3, scores);
      n->save(4, largest);
      n->save(5, log_sum);
    }
  });
}

/// The same by a kernel that does for each line all there is to do: half types are read and written as they are, and
/// nothing waits. saved(0) to saved(4): the targets, minus their weights, the scores, the logarithm of the sum of
/// exponentials in two parts; saved(5): for a mean, one over the sum of the weights, or 0 for a sum of 0, of which no
/// score has a part.
struct ClassLossesBackward : autograd::NodeOf<ClassLossesBackward, 1, 6> {
  static constexpr const char* kName = "CrossEntropyBackward";
  LossReduction reduction = LossReduction::mean;

  void backward(const Tensor& g, std::span<Tensor> dx) {
    const Tensor index = saved(0), shares = saved(1), scores = saved(2);
    Tensor of_line = reduction == LossReduction::none ? g.unsqueeze(1) : g;
    if (reduction == LossReduction::mean) of_line = of_line * saved(5);
    const Tensor share = shares * of_line;
    if (autograd::grad_enabled()) {
      const Tensor counts = raw::compare(Compare::ne, shares, 0);
      const Tensor places = raw::where(counts, index, raw::scalar(0, kInt64, index.device()));
      const Tensor zeros = raw::zeros(scores.sizes(), share.dtype(), scores.device());
      const Tensor of_all = scores.to(share.dtype()).softmax(1).masked_fill(counts.logical_not(), 0) * share;
      dx[0] = (zeros.scatter_add(1, places, share) - of_all).to(scores.dtype());
      return;
    }
    using raw::view_of;
    dx[0] = raw::empty_like(scores);
    const Tensor largest = saved(3), log_sum = saved(4);
    const DeviceKernels table = kernels(scores.device());
    require(table->cross_entropy_backward, "cross_entropy", *table)(
        view_of(dx[0]), view_of(scores), 1, view_of(largest), view_of(log_sum), view_of(index), view_of(share));
  }
};

/// `scores` is [N, C, d1, ...], `target` [N, d1, ...]. The loss is of the dtype that is computed in.
Tensor class_losses(const Tensor& scores, const Tensor& target, const CrossEntropyOptions& options) {
  const Tensor index = raw::unsqueeze(raw::contiguous(target), 1);
  const DType wide = computed_in(scores.dtype());
  const auto like_index = [&] { return raw::empty(index.sizes(), wide, scores.device()); };
  const Tensor loss = like_index(), weights = like_index(), shares = like_index(), largest = like_index(),
               log_sum = like_index();
  const autograd::detail::MaybeView weight(options.weight.defined() ? raw::contiguous(options.weight) : Tensor());
  const View of_index = raw::view_of(index), of_loss = raw::view_of(loss), of_weights = raw::view_of(weights),
             of_shares = raw::view_of(shares), of_largest = raw::view_of(largest), of_log_sum = raw::view_of(log_sum);
  kernels(scores.device())
      ->class_losses({of_index, weight, options.ignore_index, of_loss, of_weights, of_shares, of_largest, of_log_sum},
                     raw::view_of(scores), 1);
  const bool mean = options.reduction == LossReduction::mean;
  const Tensor total = mean ? drivers::reduce(Reduction::sum, weights) : Tensor();
  Tensor out = options.reduction == LossReduction::none ? raw::squeeze(loss, 1) : drivers::reduce(Reduction::sum, loss);
  if (mean) out = raw::binary(Binary::div, out, total);
  if (auto* n = autograd::track<ClassLossesBackward>(out, scores)) {
    n->save(0, index);
    n->save(1, shares);
    n->save(2, scores);
    n->save(3, largest);
    n->save(4, log_sum);
    if (mean) n->save(5, raw::where(raw::compare(Compare::eq, total, 0), total, raw::binary(Binary::div, 1, total)));
    n->reduction = options.reduction;
  }
  return out;
}

bool all_finite(const Tensor& x) {
  return drivers::reduce(Reduction::all, raw::predicate(Predicate::isfinite, x)).item<bool>();
}

/// The log-probabilities, with 0 where `never` is true: those do not count, and may be -infinity. x itself if none is.
Tensor counted(const Tensor& x, const Tensor& never) {
  if (never.device().is_cpu() && !drivers::reduce(Reduction::any, never).item<bool>()) return x;
  return x.masked_fill(never, 0);
}

/// e / C of every class for each target, in the shape of `reduction`.
Tensor uniform_part(const Tensor& log_probs, const Targets& targets, const CrossEntropyOptions& options) {
  Tensor all = log_probs;
  if (options.weight.defined()) {
    Dims along = Dims::filled(log_probs.dim(), 1);
    along[1] = log_probs.sizes()[1];
    const Tensor weight = raw::reshape(options.weight, along);
    all = counted(all, raw::compare(Compare::eq, weight, 0)) * weight;
  }
  all = all.sum({1}, true);
  if (targets.ignored.defined()) all = all.masked_fill(targets.ignored, 0);
  const double share = -options.label_smoothing / static_cast<double>(log_probs.sizes()[1]);
  if (options.reduction == LossReduction::none) return all.squeeze(1) * share;
  if (options.reduction != LossReduction::mean) return all.sum() * share;
  if (!targets.total_there.defined()) return all.sum() * (share / targets.total);
  return all.sum() * share / targets.total_there;
}

}  // namespace

Tensor nll_loss(const Tensor& log_probs, const Tensor& target, const NllLossOptions& options) {
  check_shapes(log_probs, target, options.weight, "nll_loss");
  if (autograd::detail::autocast_on() && is_half(log_probs.dtype()))
    return nll_loss(autograd::detail::raised(log_probs), target, widened(options));
  if (is_half(log_probs.dtype())) {
    return nll_loss(log_probs.to(kFloat32), target, widened(options)).to(log_probs.dtype());
  }
  const bool one = log_probs.dim() == 1;
  const Tensor scores = one ? log_probs.unsqueeze(0) : log_probs;
  const Targets targets =
      read(one ? raw::unsqueeze(target, 0) : target, scores, options.weight, options.ignore_index, IndexUse::nll_loss);
  const Tensor loss = nll(scores, targets, options.reduction, IndexUse::nll_loss);
  return one && options.reduction == LossReduction::none ? loss.squeeze(0) : loss;
}

namespace {

/// Of a target that says how probable each class is.
Tensor cross_entropy_of_distributions(const Tensor& logits, const Tensor& target, const CrossEntropyOptions& options) {
  TENDRIL_CHECK(options.ignore_index < 0, "cross_entropy: ignore_index: got ", options.ignore_index,
                " beside a target of probabilities, which has no class to ignore");
  const int along = logits.dim() == 1 ? 0 : 1;
  const auto classes = static_cast<double>(logits.sizes()[along]);
  Tensor wanted = target;
  if (const double share = options.label_smoothing; share > 0) wanted = wanted * (1 - share) + share / classes;
  if (options.weight.defined()) {
    Dims sizes = Dims::filled(logits.dim(), 1);
    sizes[along] = logits.sizes()[along];
    wanted = wanted * raw::reshape(options.weight, sizes);
  }
  const Tensor log_probs = logits.log_softmax(along);
  Tensor each;
  if (logits.device().is_cpu()) each = -(log_probs * wanted).sum({along});
  if (!each.defined() || !all_finite(each)) {  // perhaps because of a probability of 0, which does not count
    const Tensor impossible = log_probs.detach().isfinite().logical_not();
    each = -(counted(log_probs, wanted.detach().eq(0).logical_and(impossible)) * wanted).sum({along});
  }
  if (options.reduction == LossReduction::sum) return each.sum();
  return options.reduction == LossReduction::none ? each : each.mean();
}

/// Whether one kernel does all of it.
bool is_at_once(const Tensor& scores, const CrossEntropyOptions& options) {
  return kernels(scores.device())->class_losses && options.label_smoothing == 0;
}

/// Of classes; `logits` of a dtype that the kernels compute with. The loss is of the dtype that is computed in.
Tensor cross_entropy_of(const Tensor& logits, const Tensor& target, const CrossEntropyOptions& options) {
  const bool one = logits.dim() == 1;
  const Tensor scores = one ? logits.unsqueeze(0) : logits;
  const Tensor classes = one ? raw::unsqueeze(target, 0) : target;
  Tensor loss;
  if (is_at_once(scores, options)) {
    loss = class_losses(scores, classes, options);
    return one && options.reduction == LossReduction::none ? loss.squeeze(0) : loss;
  }
  const Targets targets = read(classes, scores, options.weight, options.ignore_index, IndexUse::cross_entropy);
  if (options.label_smoothing > 0) {
    const Tensor& ignored = targets.ignored;
    const Tensor log_probs = (ignored.defined() ? scores.masked_fill(ignored, 0) : scores).log_softmax(1);
    loss = nll(log_probs, targets, options.reduction, IndexUse::cross_entropy) * (1 - options.label_smoothing) +
           uniform_part(log_probs, targets, options);
  } else {
    loss = cross_entropy_of_classes(scores, targets, options.reduction);
  }
  return one && options.reduction == LossReduction::none ? loss.squeeze(0) : loss;
}

}  // namespace

Tensor cross_entropy(const Tensor& logits, const Tensor& target, const CrossEntropyOptions& options) {
  const bool of_distributions =
      logits.defined() && target.defined() && is_floating(target.dtype()) && target.dim() == logits.dim();
  check_shapes(logits, target, options.weight, "cross_entropy", of_distributions);
  TENDRIL_CHECK(options.label_smoothing >= 0 && options.label_smoothing <= 1,
                "cross_entropy: label_smoothing must be in [0, 1], got ", options.label_smoothing);
  if (of_distributions) {
    if (!is_half(logits.dtype())) return cross_entropy_of_distributions(logits, target, options);
    const Tensor loss = cross_entropy_of_distributions(logits.to(kFloat32), target.to(kFloat32), widened(options));
    return autograd::detail::autocast_on() ? loss : loss.to(logits.dtype());
  }
  if (is_half(logits.dtype())) {
    // As they are, they are read and written in half the bytes; what is computed is the same.
    const bool as_they_are = is_at_once(logits, options);
    const bool mixed = autograd::detail::autocast_on();
    const Tensor loss = as_they_are ? cross_entropy_of(logits, target, widened(options))
                                    : cross_entropy_of(mixed ? autograd::detail::raised(logits) : logits.to(kFloat32),
                                                       target, widened(options));
    return mixed ? loss : loss.to(logits.dtype());
  }
  return cross_entropy_of(logits, target, options);
}

Tensor mse_loss(const Tensor& x, const Tensor& y, LossReduction reduction) {
  detail::check_defined(x, "mse_loss", "x");
  detail::check_defined(y, "mse_loss", "y");
  TENDRIL_CHECK(x.device() == y.device(), "mse_loss: y is on ", y.device(), ", expected x's device, ", x.device());
  TENDRIL_CHECK_AS(ShapeError, x.sizes() == y.sizes(), "mse_loss: shapes ", x.sizes(), " and ", y.sizes(),
                   " differ (expand one if they are meant to broadcast)");
  if (autograd::detail::autocast_on() && (is_half(x.dtype()) || is_half(y.dtype())))
    return mse_loss(autograd::detail::raised(x), autograd::detail::raised(y), reduction);
  if (const DType dtype = raw::result_type(x, y); is_half(dtype)) {
    return mse_loss(x.to(kFloat32), y.to(kFloat32), reduction).to(dtype);
  }
  Tensor each = (x - y).square();
  if (reduction == LossReduction::none) return each;
  return reduction == LossReduction::mean ? each.mean() : each.sum();
}

}  // namespace tendril
