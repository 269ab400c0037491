// Tensor::norm.
#include <cmath>

#include "tendril/autograd/detail/range.h"
#include "tendril/autograd/grad_mode.h"
#include "tendril/autograd/history.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/autograd/ops/reduce.h"
#include "tendril/tensor/drivers/reduction.h"
#include "tendril/tensor/raw.h"

namespace tendril {

namespace {

/// The gradient of the norm n is sign(x) (|x| / n)^(p - 1): no power of it leaves the range. It is taken to be 0 where
/// the derivative does not exist: where n is 0 and, for p below 2, where x is 0.
struct NormBackward : autograd::NodeOf<NormBackward, 1, 2> {
  static constexpr const char* kName = "NormBackward";
  double p = 2;
  Dims kept;

  void backward(const Tensor& given, std::span<Tensor> dx) {
    const Tensor x = saved(0), n = saved(1).reshape(kept), g = given.reshape(kept), flat = n.detach().eq(0);
    const Tensor ratio = x / n.masked_fill(flat, 1);
    if (p == 2) {
      dx[0] = (ratio * g).masked_fill(flat, 0);
    } else {
      const Tensor zero = x.detach().eq(0);  // there the sign is 0
      dx[0] = (ratio.abs().masked_fill(zero, 1).pow(p - 1) * x.detach().sign() * g).masked_fill(flat, 0);
    }
  }
};

/// Sums of |x|^p along dimensions, which are kept.
Tensor powers(const Tensor& x, double p, const Dims& dims) {
  return p == 2 ? sum_of_squares(x, dims, true) : x.abs().pow(p).sum(dims, true);
}
Tensor root(const Tensor& total, double p) { return p == 2 ? total.sqrt() : total.pow(1 / p); }

/// The norms, of which those whose powers leave the range of the dtype are computed from x divided by its largest
/// element (its smallest for a negative p).
Tensor norms(const Tensor& x, double p, const Dims& dims) {
  const Tensor total = powers(x, p, dims);
  Tensor plain = root(total, p);
  if (x.numel() == 0 || autograd::detail::squares_in_range(total)) return plain;
  const Tensor most = p > 0 ? x.abs().amax(dims, true) : x.abs().amin(dims, true);
  const Tensor usable = most.isfinite().logical_and(most.ne(0));
  const Tensor unit = raw::where(usable, most, raw::scalar(1, most.dtype()));
  return raw::where(usable, root(powers(x / unit, p, dims), p) * unit, plain);
}

}  // namespace

Tensor Tensor::norm(double p) const { return norm(p, {}); }

Tensor Tensor::norm(double p, const Dims& dims, Flag keepdim) const {
  detail::check_floating(*this, "norm");
  TENDRIL_CHECK(!std::isnan(p), "norm: p: got nan, expected a number");
  if (computed_in(dtype()) != dtype()) return to(computed_in(dtype())).norm(p, dims, keepdim).to(dtype());
  const drivers::Reduced to(*this, dims, "norm");
  if (p == 0) {
    const Tensor count = raw::cast(raw::compare(Compare::ne, *this, 0), dtype()).sum(dims, keepdim);
    return requires_grad() ? count + masked_fill(raw::scalar(true, kBool, device()), 0).sum(dims, keepdim) : count;
  }
  if (p == 1) return abs().sum(dims, keepdim);
  if (std::isinf(p)) {
    TENDRIL_CHECK_AS(ShapeError, to.count > 0, "norm: got p ", p, " and no elements, expected at least one");
    return p > 0 ? abs().amax(dims, keepdim) : abs().amin(dims, keepdim);
  }
  Tensor out;
  {
    const NoGrad no_grad;
    out = raw::reshape(norms(*this, p, dims), keepdim ? to.kept : to.squeezed);
  }
  if (auto* node = autograd::track<NormBackward>(out, *this)) {
    node->save(0, *this);
    node->save_output(1, out);
    node->p = p;
    node->kept = to.kept;
  }
  return out;
}

}  // namespace tendril
