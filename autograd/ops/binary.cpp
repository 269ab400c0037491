#include <cmath>

#include "tendril/autograd/detail/table.h"
#include "tendril/autograd/grad_mode.h"
#include "tendril/autograd/history.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/tensor/creation.h"
#include "tendril/tensor/drivers/pointwise.h"
#include "tendril/tensor/raw.h"

namespace tendril {

namespace {

using autograd::NodeOf;
using namespace autograd::table;
using detail::is_fused, detail::mentions;

/// x / (x^2 + y^2), without overflow; 0, with all derivatives, at the origin and where x or y is infinite.
Tensor over_squared_distance(const Tensor& x, const Tensor& y) {
  const Tensor distance = x.hypot(y), excluded = distance.eq(0).logical_or(distance.isinf());
  const Tensor divisor = distance.masked_fill(excluded, 1);
  return (x / divisor / divisor).masked_fill(excluded, 0);
}

/// x / sqrt(x^2 + y^2), without overflow; 0 at the origin, -1 or 1 where x is infinite.
Tensor over_distance(const Tensor& x, const Tensor& y) {
  const Tensor distance = x.hypot(y);
  return where(x.isinf(), x.sign(), x / distance.masked_fill(distance.eq(0), 1));
}

/// The derivatives of x^y, as in tensor/scalar_math.h.
Tensor power_by_base(const Tensor& x, const Tensor& y) {
  const Tensor exponent = y - 1.0, constant = y.eq(0), rest = x.masked_fill(constant, 1).pow(exponent);
  Tensor result = (y * rest).masked_fill(constant.logical_or(rest.eq(0).logical_and(y.isinf())), 0);
  const double all_even = y.dtype() == kFloat64 ? 0x1p53 : 0x1p24;
  if (y.numel() == 1 && y.device() == kCPU && std::abs(y.item<double>()) < all_even) return result;
  const Tensor rounded = exponent.ge(all_even).logical_or(y.le(-all_even)).logical_and(y.isfinite()),
               negative = x.lt(0).logical_or(x.detach().reciprocal().lt(0));  // including -0
  return where(rounded.logical_and(negative), -result, result);
}
Tensor power_by_exponent(const Tensor& x, const Tensor& y) {
  const Tensor result = x.pow(y), zero = x.eq(0).logical_and(y.ge(0)),
               vanished = x.eq(HUGE_VAL).logical_and(result.eq(0));
  return (result * x.log()).masked_fill(zero.logical_or(vanished), 0);
}

/// The fused gradient of operand i; undefined where the operands want the formula.
[[gnu::noinline]] Tensor fused(Binary op, int i, const Tensor& g, const Tensor& x, const Tensor& y,
                               const std::optional<Scalar>& number) {
  if (!number) return raw::binary_gradient(op, i, g, x, y);
  return i == 0 ? raw::binary_gradient(op, i, g, x, *number) : raw::binary_gradient(op, i, g, *number, y);
}

/// Either operand may be a number: then it has no edge, and `number` is what the formula gets for it. Keeps what the
/// formulas of the gradients that are wanted read.
template <class Derived, Saves saves>
struct BinaryNode : NodeOf<Derived, 2, saves == kNone ? 0 : 2> {
  std::optional<Scalar> number;

  [[gnu::always_inline]] void keep(const Tensor& x, const Tensor& y) {
    if constexpr (saves == kInput) {
      const bool dx = this->has_edge(0), dy = this->has_edge(1);
      if (x.defined() && ((dx && Derived::kXNeedsX) || (dy && Derived::kYNeedsX))) this->save(0, x);
      if (y.defined() && ((dx && Derived::kXNeedsY) || (dy && Derived::kYNeedsY))) this->save(1, y);
    }
  }
  void keep(const Tensor& x, Scalar y) {
    number = y;
    keep(x, Tensor());
  }
  void keep(Scalar x, const Tensor& y) {
    number = x;
    keep(Tensor(), y);
  }
};

#define TENDRIL_BINARY(op, doc, dtypes, expression, saves, gradient_x, gradient_y, fused_x, fused_y, ...)            \
  struct op##_backward : BinaryNode<op##_backward, saves> {                                                          \
    static constexpr auto kText = node_name(#op);                                                                    \
    static constexpr const char* kName = kText.data();                                                               \
    static constexpr bool kXNeedsX = mentions(#gradient_x, 'x'), kXNeedsY = mentions(#gradient_x, 'y');              \
    static constexpr bool kYNeedsX = mentions(#gradient_y, 'x'), kYNeedsY = mentions(#gradient_y, 'y');              \
    void backward(const Tensor& given, std::span<Tensor> dx) {                                                       \
      constexpr bool x_fused = is_fused(#fused_x), y_fused = is_fused(#fused_y);                                     \
      if constexpr (x_fused || y_fused) {                                                                            \
        if (!autograd::grad_enabled()) {                                                                             \
          if (x_fused && needs_grad(0)) dx[0] = fused(Binary::op, 0, given, this->saved(0), this->saved(1), number); \
          if (y_fused && needs_grad(1)) dx[1] = fused(Binary::op, 1, given, this->saved(0), this->saved(1), number); \
        }                                                                                                            \
      }                                                                                                              \
      const auto missing = [&](std::size_t i, bool may_be_there) {                                                   \
        return needs_grad(static_cast<int>(i)) && !(may_be_there && dx[i].defined());                                \
      };                                                                                                             \
      if ((x_fused || y_fused) && !missing(0, x_fused) && !missing(1, y_fused)) return;                              \
      [[maybe_unused]] Tensor x, y;                                                                                  \
      const DType dtype = saves == kNone ? given.dtype() : computed_in(given.dtype());                               \
      const SeenAs seen(given, dtype);                                                                               \
      const Tensor& g = seen;                                                                                        \
      if constexpr (saves == kInput) {                                                                               \
        x = operand(0, dtype);                                                                                       \
        y = operand(1, dtype);                                                                                       \
      }                                                                                                              \
      if (missing(0, x_fused)) dx[0] = gradient_x;                                                                   \
      if (missing(1, y_fused)) dx[1] = gradient_y;                                                                   \
    }                                                                                                                \
    Tensor operand(int i, DType dtype) const {                                                                       \
      if (Tensor kept = this->saved(i); kept.defined()) return kept.to(dtype);                                       \
      return number ? raw::scalar(*number, dtype) : Tensor();                                                        \
    }                                                                                                                \
  };
#define TENDRIL_INTEGRAL(...)
#include "tendril/tensor/pointwise.def"

}  // namespace

#define TENDRIL_BINARY(op, doc, dtypes, expression, saves, ...)                                                     \
  static_assert(saves != kOutput, "no binary operation needs its output so far");                                   \
  Tensor Tensor::op(const Tensor& other) const { return drivers::binary<op##_backward>(Binary::op, *this, other); } \
  Tensor Tensor::op(Scalar other) const { return drivers::binary<op##_backward>(Binary::op, *this, other); }        \
  Tensor op(Scalar x, const Tensor& y) { return drivers::binary<op##_backward>(Binary::op, x, y); }
#define TENDRIL_INTEGRAL(op, ...)                                                                \
  Tensor Tensor::op(const Tensor& other) const { return raw::binary(Binary::op, *this, other); } \
  Tensor Tensor::op(Scalar other) const { return raw::binary(Binary::op, *this, other); }        \
  Tensor op(Scalar x, const Tensor& y) { return raw::binary(Binary::op, x, y); }
#define TENDRIL_COMPARE(op, ...)                                                                   \
  Tensor Tensor::op(const Tensor& other) const { return raw::compare(Compare::op, *this, other); } \
  Tensor Tensor::op(Scalar other) const { return raw::compare(Compare::op, *this, other); }
#include "tendril/tensor/pointwise.def"

Tensor Tensor::bitwise_not() const {
  detail::check_defined(*this, "bitwise_not");
  TENDRIL_CHECK_AS(DTypeError, !is_floating(dtype()), "bitwise_not: expected integers or bool, got ", dtype());
  return raw::binary(Binary::bitwise_xor, *this, dtype() == kBool ? Scalar(true) : Scalar(-1));
}

bool equal(const Tensor& x, const Tensor& y) {
  detail::check_defined(x, "equal", "x");
  detail::check_defined(y, "equal", "y");
  TENDRIL_CHECK_AS(DTypeError, x.dtype() == y.dtype(), "equal: expected one dtype, got ", x.dtype(), " and ",
                   y.dtype());
  if (!(x.sizes() == y.sizes())) return false;
  return raw::compare(Compare::eq, x, y).all().item<bool>();
}

namespace {

Tensor close_elements(const char* op, const Tensor& x, const Tensor& y, double rtol, double atol, bool equal_nan) {
  TENDRIL_CHECK_AS(DTypeError, x.dtype() == y.dtype(), op, ": expected one dtype, got ", x.dtype(), " and ", y.dtype());
  TENDRIL_CHECK(rtol >= 0 && atol >= 0, op, ": expected tolerances of 0 or more, got rtol ", rtol, " and atol ", atol);
  const NoGrad no_grad;
  // An infinity is close to its equal only, and makes the tolerance infinite, too.
  const Tensor a = is_floating(x.dtype()) ? x : x.to(kFloat64), b = is_floating(y.dtype()) ? y : y.to(kFloat64);
  const Tensor close = a.eq(b).logical_or((a - b).abs().le(b.abs() * rtol + atol).logical_and(b.isfinite()));
  return equal_nan ? close.logical_or(a.isnan().logical_and(b.isnan())) : close;
}

}  // namespace

bool allclose(const Tensor& x, const Tensor& y, double rtol, double atol, bool equal_nan) {
  detail::check_defined(x, "allclose", "x");
  detail::check_defined(y, "allclose", "y");
  return close_elements("allclose", x, y, rtol, atol, equal_nan).all().item<bool>();
}

Tensor isclose(const Tensor& x, const Tensor& y, double rtol, double atol, bool equal_nan) {
  detail::check_defined(x, "isclose", "x");
  detail::check_defined(y, "isclose", "y");
  return close_elements("isclose", x, y, rtol, atol, equal_nan);
}

}  // namespace tendril
