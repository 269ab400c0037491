#include <cmath>
#include <optional>

#include "tendril/autograd/history.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/tensor/drivers/pointwise.h"
#include "tendril/tensor/raw.h"

namespace tendril {

namespace {

using autograd::NodeOf;

struct WhereBackward : NodeOf<WhereBackward, 2, 1> {
  static constexpr const char* kName = "WhereBackward";

  void keep(const Tensor& mask) { save(0, mask); }
  void backward(const Tensor& g, std::span<Tensor> dx) {
    const Tensor mask = saved(0);
    if (needs_grad(0)) dx[0] = where(mask, g, 0);
    if (needs_grad(1)) dx[1] = where(mask, 0, g);
  }
};

/// Of `where` with a number in the place of x.
struct MaskedFillBackward : NodeOf<MaskedFillBackward, 2, 1> {
  static constexpr const char* kName = "MaskedFillBackward";

  void keep(const Tensor& mask) { save(0, mask); }
  void backward(const Tensor& g, std::span<Tensor> dx) { dx[1] = g.masked_fill(saved(0), 0); }
};

/// The gradient passes strictly between the bounds, and at NaN; on a bound it is 0, as in PyTorch since 2.15. With a
/// NaN as bound it is 0.
struct ClampBackward : NodeOf<ClampBackward, 1, 1> {
  static constexpr const char* kName = "ClampBackward";

  void keep(const Tensor& x, std::optional<Scalar> low, std::optional<Scalar> high) {
    Tensor outside = low ? raw::compare(Compare::le, x, *low) : Tensor();
    if (high) {
      const Tensor above = raw::compare(Compare::ge, x, *high);
      outside = outside.defined() ? raw::compare(Compare::logical_or, outside, above) : above;
    }
    const bool none = (low && std::isnan(low->to<double>())) || (high && std::isnan(high->to<double>()));
    save(0, none ? raw::ones(x.sizes(), kBool, x.device()) : outside);
  }
  void backward(const Tensor& g, std::span<Tensor> dx) { dx[0] = g.masked_fill(saved(0), 0); }
};

/// A number next to a tensor of this dtype, as a tensor that does not widen it. It joins tensors of any device.
Tensor beside(Scalar value, const Tensor& x) {
  const DType dtype = raw::result_type(x, value);
  detail::check_fits(value, dtype, "where");
  return raw::scalar(value, dtype);
}

}  // namespace

Tensor where(const Tensor& mask, const Tensor& x, const Tensor& y) { return drivers::where<WhereBackward>(mask, x, y); }
Tensor where(const Tensor& mask, const Tensor& x, Scalar y) {
  detail::check_defined(x, "where", "x");
  return drivers::where<WhereBackward>(mask, x, beside(y, x));
}
Tensor where(const Tensor& mask, Scalar x, const Tensor& y) {
  detail::check_defined(y, "where", "y");
  return drivers::where<WhereBackward>(mask, beside(x, y), y);
}

Tensor where(const Tensor& mask, Scalar x, Scalar y) {
  detail::check_defined(mask, "where", "the mask");
  const DType kind = promote(x.category(), y.category());
  const DType dtype = kind == kFloat64 ? kFloat32 : kind;
  return raw::where(mask, raw::scalar(x, dtype, mask.device()), raw::scalar(y, dtype, mask.device()));
}

Tensor Tensor::masked_fill(const Tensor& mask, Scalar value) const {
  detail::check_defined(*this, "masked_fill");
  detail::check_defined(mask, "masked_fill", "the mask");
  TENDRIL_CHECK_AS(DTypeError, mask.dtype() == kBool, "masked_fill: the mask must be bool, got ", mask.dtype());
  TENDRIL_CHECK_AS(DTypeError, (is_floating(dtype()) || !value.is_floating()) && value.fits(dtype()),
                   "masked_fill: the value ", value, " does not convert to ", dtype());
  if (mask.sizes() != sizes()) (void)broadcast_shapes(sizes(), mask.sizes(), "masked_fill");  // else `where` is named
  return drivers::where<MaskedFillBackward>(mask, raw::scalar(value, dtype()), *this);
}

Tensor Tensor::clamp(std::optional<Scalar> low, std::optional<Scalar> high) const {
  return drivers::clamp<ClampBackward>(*this, low, high);
}

}  // namespace tendril
