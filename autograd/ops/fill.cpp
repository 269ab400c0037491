// In place, what does not depend on what was there: copies, constants, random numbers.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <utility>

#include "tendril/autograd/detail/inplace.h"
#include "tendril/tensor/creation.h"
#include "tendril/tensor/random.h"

namespace tendril {

namespace {

using autograd::NodeOf;
using autograd::track;
using autograd::detail::rebase_as_filled;
using autograd::detail::recorded;

/// What is overwritten has no say any more, but stays in the graph, as in PyTorch: its gradient is zero.
struct FillBackward : NodeOf<FillBackward, 1> {
  static constexpr const char* kName = "FillBackward";

  void backward(const Tensor& g, std::span<Tensor> dx) { dx[0] = zeros_like(g); }
};
/// Likewise; the source has all.
struct CopyBackward : NodeOf<CopyBackward, 2> {
  static constexpr const char* kName = "CopyBackward";

  void backward(const Tensor& g, std::span<Tensor> dx) {
    if (needs_grad(0)) dx[0] = zeros_like(g);
    if (needs_grad(1)) dx[1] = g;
  }
};

/// The operand that these two overwrite. What a view overwrites is kept in the graph by its base.
Tensor overwritten(const Tensor& target) { return target.impl()->view_base ? Tensor() : target; }

}  // namespace

void autograd::detail::rebase_as_filled(const Tensor& x, bool records) {
  if (records) {
    const Tensor result = autograd::detail::alias(x);
    track<FillBackward>(result, overwritten(x));
    autograd::rebase_history(x, result);
  } else {
    x.impl()->storage->bump_version();
  }
}

const Tensor& Tensor::copy_(const Tensor& source) const {
  detail::check_defined(*this, "copy_");
  detail::check_defined(source, "copy_", "the source");
  const bool records = recorded(*this, source);
  autograd::check_inplace(*this, records);
  TENDRIL_CHECK_AS(ShapeError, broadcast_shapes(sizes(), source.sizes(), "copy_") == sizes(),
                   "copy_: a source of shape ", source.sizes(), " does not broadcast to ", sizes());
  const Tensor result = autograd::detail::alias(*this);
  if (records) track<CopyBackward>(result, overwritten(*this), source);
  raw::copy_(*this, source);
  if (records) {
    autograd::rebase_history(*this, result);
  } else {
    impl_->storage->bump_version();
  }
  return *this;
}

Tensor Tensor::operator=(const Tensor& source) && { return copy_(source); }
Tensor Tensor::operator=(Scalar value) && { return fill_(value); }

const Tensor& Tensor::fill_(Scalar value) const {
  detail::check_defined(*this, "fill_");
  detail::check_fits(value, dtype(), "fill_");
  const bool records = recorded(*this);
  autograd::check_inplace(*this, records);
  raw::fill_(*this, value);
  rebase_as_filled(*this, records);
  return *this;
}

namespace {

/// Fills with random numbers; `draw` is raw.h's.
template <class Draw>
const Tensor& draw_over(const Tensor& x, const char* name, Draw draw) {
  detail::check_defined(x, name);
  const bool records = recorded(x);
  autograd::check_inplace(x, records);
  draw();
  rebase_as_filled(x, records && is_floating(x.dtype()));
  return x;
}
void check_drawn(const Tensor& x, const char* name) { detail::check_floating(x, name); }

}  // namespace

namespace {

/// The smallest and the largest positive number of a floating dtype.
std::pair<double, double> positive_range(DType dtype) {
  if (dtype == kFloat16) return {0x1p-24, 65504};
  if (dtype == kBFloat16) return {0x1p-133, 0x1.fep127};
  if (dtype == kFloat32) return {std::numeric_limits<float>::denorm_min(), std::numeric_limits<float>::max()};
  return {std::numeric_limits<double>::denorm_min(), std::numeric_limits<double>::max()};
}

double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }

/// Where normal_cdf is p: Acklam's rational approximation (relative error 1.2e-9), then one step of Halley's method.
double normal_quantile(double p) {
  if (p <= 0) return -HUGE_VAL;
  if (p >= 1) return HUGE_VAL;
  constexpr double a[] = {-3.969683028665376e+01, 2.209460984245205e+02,  -2.759285104469687e+02,
                          1.383577518672690e+02,  -3.066479806614716e+01, 2.506628277459239e+00};
  constexpr double b[] = {-5.447609879822406e+01, 1.615858368580409e+02, -1.556989798598866e+02, 6.680131188771972e+01,
                          -1.328068155288572e+01};
  constexpr double c[] = {-7.784894002430293e-03, -3.223964580411365e-01, -2.400758277161838e+00,
                          -2.549732539343734e+00, 4.374664141464968e+00,  2.938163982698783e+00};
  constexpr double d[] = {7.784695709041462e-03, 3.224671290700398e-01, 2.445134137142996e+00, 3.754408661907416e+00};
  const auto tail = [&](double q) {
    return (((((c[0] * q + c[1]) * q + c[2]) * q + c[3]) * q + c[4]) * q + c[5]) /
           ((((d[0] * q + d[1]) * q + d[2]) * q + d[3]) * q + 1);
  };
  double x;
  if (p < 0.02425) {
    x = tail(std::sqrt(-2 * std::log(p)));
  } else if (p > 1 - 0.02425) {
    x = -tail(std::sqrt(-2 * std::log1p(-p)));
  } else {
    const double q = p - 0.5, r = q * q;
    x = (((((a[0] * r + a[1]) * r + a[2]) * r + a[3]) * r + a[4]) * r + a[5]) * q /
        (((((b[0] * r + b[1]) * r + b[2]) * r + b[3]) * r + b[4]) * r + 1);
  }
  const double e = normal_cdf(x) - p, u = e * std::sqrt(2 * std::numbers::pi) * std::exp(x * x / 2);
  return x - u / (1 + x * u / 2);
}

}  // namespace

const Tensor& Tensor::uniform_(double low, double high) const { return uniform_(low, high, default_generator()); }
const Tensor& Tensor::uniform_(double low, double high, Generator& generator) const {
  check_drawn(*this, "uniform_");
  TENDRIL_CHECK(low <= high, "uniform_: expected low <= high, got [", low, ", ", high, ")");
  return draw_over(*this, "uniform_", [&] { raw::uniform_(*this, low, high, generator); });
}
const Tensor& Tensor::normal_(double mean, double stddev) const { return normal_(mean, stddev, default_generator()); }
const Tensor& Tensor::normal_(double mean, double stddev, Generator& generator) const {
  check_drawn(*this, "normal_");
  TENDRIL_CHECK(stddev >= 0, "normal_: expected a standard deviation of 0 or more, got ", stddev);
  return draw_over(*this, "normal_", [&] { raw::normal_(*this, mean, stddev, generator); });
}
const Tensor& Tensor::trunc_normal_(double mean, double stddev, double low, double high) const {
  return trunc_normal_(mean, stddev, low, high, default_generator());
}
const Tensor& Tensor::trunc_normal_(double mean, double stddev, double low, double high, Generator& generator) const {
  check_drawn(*this, "trunc_normal_");
  TENDRIL_CHECK(std::isfinite(mean), "trunc_normal_: mean: got ", mean, ", expected a finite number");
  TENDRIL_CHECK(std::isfinite(stddev) && stddev > 0, "trunc_normal_: stddev: got ", stddev,
                ", expected a positive number");
  TENDRIL_CHECK(low < high, "trunc_normal_: got low ", low, " and high ", high, ", expected low below high");
  // An interval above the mean is looked at in the mirror: near 1 a probability has few digits.
  const double side = low > mean ? -1 : 1;
  const double near = (low - mean) / stddev, far = (high - mean) / stddev;
  const double from = normal_cdf(side > 0 ? near : -far), to = normal_cdf(side > 0 ? far : -near);
  TENDRIL_CHECK(from < to, "trunc_normal_: got low ", low, " and high ", high, " for mean ", mean, " and stddev ",
                stddev, ", expected an interval that the normal distribution reaches");
  return draw_over(*this, "trunc_normal_", [&] {
    const Tensor values = raw::empty(sizes(), kFloat64);
    raw::uniform_(values, from, to, generator);
    auto* const x = values.mutable_data<double>();
    for (int64_t i = 0; i < values.numel(); ++i) {
      x[i] = std::min(high, std::max(low, mean + side * stddev * normal_quantile(x[i])));
    }
    raw::copy_(*this, values);
  });
}
const Tensor& Tensor::exponential_(double rate) const { return exponential_(rate, default_generator()); }
const Tensor& Tensor::exponential_(double rate, Generator& generator) const {
  check_drawn(*this, "exponential_");
  TENDRIL_CHECK(rate > 0 && std::isfinite(rate), "exponential_: rate: expected a finite number above 0, got ", rate);
  const DType wide = computed_in(dtype());  // half types have too few digits for u, so only the result is rounded
  // -log(1 - u) / rate for u in (0, 1): a multiple of `step` plus half a step, so that the result is never 0.
  const double step = wide == kFloat64 ? 0x1p-53 : 0x1p-24;
  const auto [smallest, largest] = positive_range(dtype());
  const bool may_leave_range = step / 2 / rate < smallest || -std::log(step) / rate > largest;
  return draw_over(*this, "exponential_", [&] {
    const Tensor values = dtype() == wide ? *this : raw::empty(sizes(), wide, device());
    raw::uniform_(values, step / 2, 1, generator);
    raw::unary_(Unary::neg, values);
    raw::unary_(Unary::log1p, values);
    raw::binary_(Binary::mul, values, -1 / rate);
    if (may_leave_range)
      raw::copy_(*this, raw::clamp(values, smallest, largest));
    else if (dtype() != wide)
      raw::copy_(*this, values);
  });
}
const Tensor& Tensor::bernoulli_(double p) const { return bernoulli_(p, default_generator()); }
const Tensor& Tensor::bernoulli_(double p, Generator& generator) const {
  TENDRIL_CHECK(p >= 0 && p <= 1, "bernoulli_: the probability must be in [0, 1], got ", p);
  return draw_over(*this, "bernoulli_", [&] { raw::bernoulli_(*this, p, generator); });
}

}  // namespace tendril
