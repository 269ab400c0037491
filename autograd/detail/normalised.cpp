#include "tendril/autograd/detail/normalised.h"

#include <cmath>

#include "tendril/autograd/detail/range.h"
#include "tendril/autograd/grad_mode.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/tensor/raw.h"

namespace tendril::autograd::detail {

namespace {

/// Variances between these, and powers of them up to 3/2 times a gradient, are normal numbers of the dtype.
struct VarianceRange {
  explicit VarianceRange(DType dtype) : least(dtype == kFloat64 ? 1e-290 : 1e-30), most(1e4 / least) {}
  double least, most;
};

}  // namespace

bool variances_in_range(const Tensor& variances, double eps) {
  const VarianceRange range(variances.dtype());
  return within(variances, eps < range.least ? range.least : 0, range.most);
}

bool rstd_in_range(const Tensor& rstd) {
  const VarianceRange range(rstd.dtype());
  return within(rstd, 1 / std::sqrt(range.most), 1 / std::sqrt(range.least));
}

Rescaled::Rescaled(const Tensor& x, const Dims& dims, bool centred, double eps) {
  const Tensor wide = x.to(kFloat64), most = wide.detach().abs().amax(dims, true).clamp(std::sqrt(eps), std::nullopt);
  const Tensor unit = most.masked_fill(most.eq(0), 1), scaled = wide / unit;
  const Tensor centre = scaled.mean(dims, true), about = centred ? scaled - centre : scaled;
  const Tensor spread = about.square().mean(dims, true);
  xhat = about * (spread + (std::sqrt(eps) / unit).square()).rsqrt();
  const NoGrad no_grad;
  mean = centre.detach() * unit;
  variance = spread.detach() * unit * unit;
}

Tensor scaled_and_shifted(const Tensor& value, const Tensor& weight, const Tensor& bias, DType dtype) {
  Tensor y = value;
  if (weight.defined()) y = y * weight;
  if (bias.defined()) y = y + bias;
  return y.to(dtype);
}

}  // namespace tendril::autograd::detail
