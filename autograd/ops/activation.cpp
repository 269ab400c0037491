#include "tendril/autograd/ops/activation.h"

#include <cmath>
#include <cstdint>

#include "tendril/autograd/autocast.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/tensor/raw.h"

namespace tendril {

namespace {

/// Throws DTypeError for bool; others are computed in their own dtype.
void check_numbers(const Tensor& x, const char* op) {
  detail::check_defined(x, op);
  TENDRIL_CHECK_AS(DTypeError, x.dtype() != kBool, op, ": x has dtype bool, expected numbers");
}

/// The nearest int64 towards zero.
int64_t whole(double value) {
  return value >= 0x1p63 ? INT64_MAX : value <= -0x1p63 ? INT64_MIN : static_cast<int64_t>(value);
}

}  // namespace

Tensor hardtanh(const Tensor& x, double min_val, double max_val) {
  check_numbers(x, "hardtanh");
  TENDRIL_CHECK(min_val <= max_val, "hardtanh: got min_val ", min_val, " and max_val ", max_val,
                ", expected the first to be at most the second");
  if (!is_floating(x.dtype())) return x.clamp(whole(min_val), whole(max_val));
  return x.clamp(min_val, max_val);
}

Tensor threshold(const Tensor& x, double bound, double value) {
  check_numbers(x, "threshold");
  if (is_floating(x.dtype())) return x.masked_fill(x.le(bound), value);
  TENDRIL_CHECK(!std::isnan(bound) && !std::isnan(value), "threshold: got ", bound, " and ", value,
                ", expected numbers for ", x.dtype());
  const Scalar filled = whole(value);
  detail::check_fits(filled, x.dtype(), "threshold");
  return x.masked_fill(x.le(whole(bound)), filled);
}

Tensor softplus(const Tensor& x, double beta, double bound) {
  detail::check_floating(x, "softplus");
  TENDRIL_CHECK(beta > 0, "softplus: beta: got ", beta, ", expected a positive number");
  const Tensor scaled = x * beta;
  return where(scaled.gt(bound), x, scaled.softplus() / beta);
}

Tensor prelu(const Tensor& x, const Tensor& weight) {
  detail::check_floating(x, "prelu");
  detail::check_defined(weight, "prelu", "weight");
  if (autograd::detail::autocast_on()) [[unlikely]] {
    const Tensor low_x = autograd::detail::lowered(x), low_weight = autograd::detail::lowered(weight);
    const autograd::detail::AutocastOff done;
    return prelu(low_x, low_weight);
  }
  TENDRIL_CHECK_AS(DTypeError, weight.dtype() == x.dtype(), "prelu: weight is ", weight.dtype(), ", expected x's ",
                   x.dtype());
  TENDRIL_CHECK(weight.device() == x.device(), "prelu: weight is on ", weight.device(), ", expected x's device ",
                x.device());
  const int64_t channels = x.dim() >= 2 ? x.size(1) : 1;
  TENDRIL_CHECK_AS(ShapeError, weight.dim() <= 1 && (weight.numel() == 1 || weight.numel() == channels),
                   "prelu: weight has shape ", weight.sizes(), ", expected one number, or one for each of the ",
                   channels, " channels of x ", x.sizes());
  Dims by_channel = Dims::filled(x.dim(), 1);
  if (weight.numel() != 1) by_channel[1] = channels;
  const Tensor positive = x.detach().gt(0);  // there an infinite x would make the weight's gradient 0 * infinity
  return where(positive, x, x.masked_fill(positive, 0) * weight.reshape(by_channel));
}

Tensor rrelu(const Tensor& x, const RReLUOptions& options) {
  detail::check_floating(x, "rrelu");
  TENDRIL_CHECK(options.lower <= options.upper, "rrelu: got lower ", options.lower, " and upper ", options.upper,
                ", expected the first to be at most the second");
  if (!options.training) return x.leaky_relu((options.lower + options.upper) / 2);
  Tensor slopes = raw::empty(x.sizes(), x.dtype(), x.device());
  raw::uniform_(slopes, options.lower, options.upper, options.generator);
  return x * slopes.masked_fill(x.detach().gt(0), 1.0);
}

Tensor glu(const Tensor& x, int64_t given_dim) {
  detail::check_floating(x, "glu");
  const int dim = wrap_dim(given_dim, x.dim(), "glu");
  TENDRIL_CHECK_AS(ShapeError, x.dim() > 0 && x.sizes()[dim] % 2 == 0, "glu: x has shape ", x.sizes(),
                   ", expected an even size in dimension ", dim);
  const int64_t half = x.sizes()[dim] / 2;
  return x.narrow(dim, 0, half) * x.narrow(dim, half, half).sigmoid();
}

}  // namespace tendril
