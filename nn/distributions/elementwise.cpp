// Normal, Uniform, Bernoulli: distributions of each element by itself.
#include <cmath>
#include <limits>
#include <numbers>

#include "tendril/autograd/grad_mode.h"
#include "tendril/autograd/ops/loss_pairs.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/nn/distributions/bernoulli.h"
#include "tendril/nn/distributions/detail/parameters.h"
#include "tendril/nn/distributions/normal.h"
#include "tendril/nn/distributions/uniform.h"
#include "tendril/tensor/raw.h"

namespace tendril::distributions {

namespace {

const double kHalfLogTwoPi = 0.5 * std::log(2 * std::numbers::pi);

Tensor noise_like(const Tensor& x, const Dims& sample_shape) {
  return raw::empty(detail::sample_sizes(sample_shape, x.sizes()), x.dtype(), x.device());
}

}  // namespace

// ---- what they share

Tensor detail::clamp_probs(const Tensor& probs) {
  const double eps = probs.dtype() == kFloat32 ? static_cast<double>(std::numeric_limits<float>::epsilon())
                                               : std::numeric_limits<double>::epsilon();
  return probs.clamp(eps, 1 - eps);
}

void detail::check_parameter(const char* op, const char* name, const Tensor& x) {
  TENDRIL_CHECK(x.defined(), op, ": ", name, " is an undefined tensor");
  TENDRIL_CHECK_AS(DTypeError, x.dtype() == kFloat32 || x.dtype() == kFloat64, op, ": ", name, " has dtype ", x.dtype(),
                   ", expected float32 or float64");
}

Dims detail::sample_sizes(const Dims& sample_shape, const Dims& batch_shape) {
  Dims sizes = sample_shape;
  for (const int64_t size : batch_shape) sizes.push_back(size);
  return sizes;
}

std::pair<Tensor, Tensor> detail::broadcast(const char* op, const char* a_name, const Tensor& a, const char* b_name,
                                            const Tensor& b) {
  check_parameter(op, a_name, a);
  check_parameter(op, b_name, b);
  TENDRIL_CHECK_AS(DTypeError, a.dtype() == b.dtype(), op, ": ", a_name, " is ", a.dtype(), ", ", b_name, " is ",
                   b.dtype(), ", expected one dtype");
  TENDRIL_CHECK(a.device() == b.device(), op, ": ", b_name, " is on ", b.device(), ", expected the device of ", a_name,
                ", ", a.device());
  const int dims = std::max(a.dim(), b.dim());
  Dims sizes;
  bool fits = true;
  for (int d = 0; d < dims; ++d) {
    const auto size_of = [&](const Tensor& x) { return d < dims - x.dim() ? 1 : x.sizes()[d - (dims - x.dim())]; };
    const int64_t m = size_of(a), n = size_of(b);
    fits = fits && (m == n || m == 1 || n == 1);
    sizes.push_back(m == 1 ? n : m);
  }
  TENDRIL_CHECK_AS(ShapeError, fits, op, ": ", a_name, " and ", b_name, " have shapes ", a.sizes(), " and ", b.sizes(),
                   ", expected shapes that broadcast");
  return {a.expand(sizes), b.expand(sizes)};
}

void detail::check_values(const char* op, const char* name, const Tensor& valid, const char* expected) {
  if (!valid.device().is_cpu() || valid.numel() == 0) return;
  TENDRIL_CHECK(valid.all().item<bool>(), op, ": ", name, ": got an element that is not, expected ", expected);
}

void detail::check_value(const char* op, const Tensor& value, const Tensor& x) {
  (void)broadcast(op, "value", value.detach(), "the batch", x.detach());
}

// ---- Normal

Normal::Normal(const Tensor& loc, const Tensor& scale) {
  std::tie(loc_, scale_) = detail::broadcast("Normal", "loc", loc, "scale", scale);
  const NoGrad no_grad;
  detail::check_values("Normal", "scale", scale.gt(0), "positive numbers");
}

Tensor Normal::sample(Generator& generator, const Dims& sample_shape) const {
  const NoGrad no_grad;
  return rsample(generator, sample_shape);
}

Tensor Normal::rsample(Generator& generator, const Dims& sample_shape) const {
  const Tensor noise = noise_like(loc_, sample_shape);
  raw::normal_(noise, 0, 1, generator);
  return loc_ + scale_ * noise;
}

Tensor Normal::log_prob(const Tensor& value) const {
  TENDRIL_CHECK(value.defined(), "Normal::log_prob: value is an undefined tensor");
  detail::check_value("Normal::log_prob", value, loc_);
  return (value - loc_).square() / (scale_.square() * -2.0) - scale_.log() - kHalfLogTwoPi;
}

Tensor Normal::cdf(const Tensor& value) const {
  TENDRIL_CHECK(value.defined(), "Normal::cdf: value is an undefined tensor");
  detail::check_value("Normal::cdf", value, loc_);
  return (((value - loc_) / (scale_ * std::numbers::sqrt2)).erf() + 1.0) * 0.5;
}

Tensor Normal::entropy() const { return scale_.log() + (0.5 + kHalfLogTwoPi); }

Tensor kl_divergence(const Normal& p, const Normal& q) {
  detail::check_value("kl_divergence", p.loc(), q.loc());
  const Tensor ratio = (p.scale() / q.scale()).square(), off = ((p.loc() - q.loc()) / q.scale()).square();
  return (ratio + off - 1.0 - ratio.log()) * 0.5;
}

// ---- Uniform

Uniform::Uniform(const Tensor& low, const Tensor& high) {
  std::tie(low_, high_) = detail::broadcast("Uniform", "low", low, "high", high);
  const NoGrad no_grad;
  detail::check_values("Uniform", "high", low_.lt(high_), "numbers above low");
}

Tensor Uniform::mean() const { return (low_ + high_) * 0.5; }
Tensor Uniform::variance() const { return (high_ - low_).square() / 12.0; }

Tensor Uniform::sample(Generator& generator, const Dims& sample_shape) const {
  const NoGrad no_grad;
  return rsample(generator, sample_shape);
}

namespace {

/// What to subtract from numbers drawn from [low, high) that rounding made `high`, so that they become a number below.
Tensor excess_over_end(const Tensor& x, const Tensor& low, const Tensor& high) {
  const NoGrad no_grad;
  const bool wide = x.dtype() == kFloat64;
  // At most two representable numbers below `high`.
  const Tensor last =
      (high - (high.abs() * (wide ? 0x1p-52 : 0x1p-23)).maximum(wide ? 0x1p-1074 : 0x1p-149)).maximum(low);
  return where(x.ge(high), x - last, 0.0);
}

}  // namespace

Tensor Uniform::rsample(Generator& generator, const Dims& sample_shape) const {
  const Tensor noise = noise_like(low_, sample_shape);
  raw::uniform_(noise, 0, 1, generator);
  const Tensor x = low_ + (high_ - low_) * noise;
  return x - excess_over_end(x, low_, high_);
}

Tensor Uniform::log_prob(const Tensor& value) const {
  TENDRIL_CHECK(value.defined(), "Uniform::log_prob: value is an undefined tensor");
  detail::check_value("Uniform::log_prob", value, low_);
  const Tensor inside = value.ge(low_).logical_and(value.lt(high_));
  return where(inside, -(high_ - low_).log(), -HUGE_VAL);
}

Tensor Uniform::entropy() const { return (high_ - low_).log(); }

Tensor kl_divergence(const Uniform& p, const Uniform& q) {
  detail::check_value("kl_divergence", p.low(), q.low());
  const Tensor outside = p.low().lt(q.low()).logical_or(p.high().gt(q.high()));
  const Tensor within = ((q.high() - q.low()) / (p.high() - p.low())).log();
  return where(outside, HUGE_VAL, within);
}

// ---- Bernoulli

Bernoulli::Bernoulli(const BernoulliParams& params) : is_logits_(params.logits.defined()) {
  TENDRIL_CHECK(params.probs.defined() != params.logits.defined(), "Bernoulli: got ",
                params.probs.defined() ? "both probs and logits" : "neither probs nor logits",
                ", expected exactly one of them");
  param_ = is_logits_ ? params.logits : params.probs;
  detail::check_parameter("Bernoulli", is_logits_ ? "logits" : "probs", param_);
  if (is_logits_) return;
  const NoGrad no_grad;
  detail::check_values("Bernoulli", "probs", param_.ge(0).logical_and(param_.le(1)), "numbers in [0, 1]");
}

Tensor Bernoulli::probs() const { return is_logits_ ? param_.sigmoid() : param_; }

Tensor Bernoulli::logits() const {
  if (is_logits_) return param_;
  const Tensor p = detail::clamp_probs(param_);
  return p.log() - (-p).log1p();
}

Tensor Bernoulli::variance() const {
  const Tensor p = probs();
  return p * (1.0 - p);
}

Tensor Bernoulli::sample(Generator& generator, const Dims& sample_shape) const {
  const NoGrad no_grad;
  const Tensor noise = noise_like(param_, sample_shape);
  raw::uniform_(noise, 0, 1, generator);
  return noise.lt(probs()).to(param_.dtype());
}

Tensor Bernoulli::log_prob(const Tensor& value) const {
  TENDRIL_CHECK(value.defined(), "Bernoulli::log_prob: value is an undefined tensor");
  const auto [v, x] = detail::broadcast("Bernoulli::log_prob", "value", value, "the batch", logits());
  return -binary_cross_entropy_with_logits(x, v, {.reduction = LossReduction::none});
}

Tensor Bernoulli::entropy() const {
  return binary_cross_entropy_with_logits(logits(), probs(), {.reduction = LossReduction::none});
}

Tensor kl_divergence(const Bernoulli& p, const Bernoulli& q) {
  const Tensor x = p.logits(), y = q.logits(), share = p.probs();
  detail::check_value("kl_divergence", x, y);
  // p (log p - log q) + (1 - p) (log(1 - p) - log(1 - q)), by logarithms of sigmoids. What p never gives adds nothing;
  // what q never gives, but p does, makes it infinite.
  const auto never = [](const Bernoulli& of, bool one) {
    return of.is_logits_ ? of.param_.eq(one ? -HUGE_VAL : HUGE_VAL) : of.param_.eq(one ? 0 : 1);
  };
  const auto part = [&](const Tensor& each, bool one) {
    return where(never(p, one), 0.0, where(never(q, one), HUGE_VAL, each));
  };
  const Tensor ones = share * (x.logsigmoid() - y.logsigmoid());
  const Tensor zeros = (1.0 - share) * ((-x).logsigmoid() - (-y).logsigmoid());
  return part(ones, true) + part(zeros, false);
}

}  // namespace tendril::distributions
