#pragma once

#include "tendril/tensor/export.h"
#include "tendril/tensor/tensor.h"

TENDRIL_API_BEGIN

/// Free functions and operators of the pointwise operations (tensor/pointwise.def says what each is). Operands
/// broadcast and promote as in PyTorch; a number takes part in promotion by its category only.
namespace tendril {

#define TENDRIL_UNARY(name, doc, ...) \
  /** doc */                          \
  inline Tensor name(const Tensor& x) { return x.name(); }
#define TENDRIL_PARAMETRIC(name, doc, dtypes, expression, saves, gradient, fused, low, high, value) \
  /** doc */                                                                                        \
  inline Tensor name(const Tensor& x, double p = value) { return x.name(p); }
#define TENDRIL_PREDICATE(name, doc, ...) \
  /** doc */                              \
  inline Tensor name(const Tensor& x) { return x.name(); }
#define TENDRIL_BINARY(name, doc, ...)                                       \
  /** doc */                                                                 \
  inline Tensor name(const Tensor& x, const Tensor& y) { return x.name(y); } \
  inline Tensor name(const Tensor& x, Scalar y) { return x.name(y); }        \
  Tensor name(Scalar x, const Tensor& y);
#define TENDRIL_COMPARE(name, doc, ...)                                      \
  /** doc */                                                                 \
  inline Tensor name(const Tensor& x, const Tensor& y) { return x.name(y); } \
  inline Tensor name(const Tensor& x, Scalar y) { return x.name(y); }
#include "tendril/tensor/pointwise.def"

inline Tensor operator+(const Tensor& x, const Tensor& y) { return x.add(y); }
inline Tensor operator+(const Tensor& x, Scalar y) { return x.add(y); }
inline Tensor operator+(Scalar x, const Tensor& y) { return add(x, y); }
inline Tensor operator-(const Tensor& x, const Tensor& y) { return x.sub(y); }
inline Tensor operator-(const Tensor& x, Scalar y) { return x.sub(y); }
inline Tensor operator-(Scalar x, const Tensor& y) { return sub(x, y); }
inline Tensor operator*(const Tensor& x, const Tensor& y) { return x.mul(y); }
inline Tensor operator*(const Tensor& x, Scalar y) { return x.mul(y); }
inline Tensor operator*(Scalar x, const Tensor& y) { return mul(x, y); }
inline Tensor operator/(const Tensor& x, const Tensor& y) { return x.div(y); }
inline Tensor operator/(const Tensor& x, Scalar y) { return x.div(y); }
inline Tensor operator/(Scalar x, const Tensor& y) { return div(x, y); }
/// The remainder of y's sign, as Python's.
inline Tensor operator%(const Tensor& x, const Tensor& y) { return x.remainder(y); }
inline Tensor operator%(const Tensor& x, Scalar y) { return x.remainder(y); }
inline Tensor operator%(Scalar x, const Tensor& y) { return remainder(x, y); }
inline Tensor operator-(const Tensor& x) { return x.neg(); }
inline Tensor operator&(const Tensor& x, const Tensor& y) { return x.bitwise_and(y); }
inline Tensor operator&(const Tensor& x, Scalar y) { return x.bitwise_and(y); }
inline Tensor operator|(const Tensor& x, const Tensor& y) { return x.bitwise_or(y); }
inline Tensor operator|(const Tensor& x, Scalar y) { return x.bitwise_or(y); }
inline Tensor operator^(const Tensor& x, const Tensor& y) { return x.bitwise_xor(y); }
inline Tensor operator^(const Tensor& x, Scalar y) { return x.bitwise_xor(y); }
inline Tensor operator<<(const Tensor& x, const Tensor& y) { return x.bitwise_left_shift(y); }
inline Tensor operator<<(const Tensor& x, Scalar y) { return x.bitwise_left_shift(y); }
inline Tensor operator>>(const Tensor& x, const Tensor& y) { return x.bitwise_right_shift(y); }
inline Tensor operator>>(const Tensor& x, Scalar y) { return x.bitwise_right_shift(y); }
/// Every bit the other way round (of bool: not). Integers and bool.
inline Tensor bitwise_not(const Tensor& x) { return x.bitwise_not(); }
inline Tensor operator~(const Tensor& x) { return x.bitwise_not(); }
/// Element by element, as bool; whether two tensors are equal as a whole is `equal`.
inline Tensor operator==(const Tensor& x, const Tensor& y) { return x.eq(y); }
/// With a number, as bool.
inline Tensor operator==(const Tensor& x, Scalar y) { return x.eq(y); }
inline Tensor operator!=(const Tensor& x, const Tensor& y) { return x.ne(y); }
inline Tensor operator!=(const Tensor& x, Scalar y) { return x.ne(y); }
inline Tensor operator<(const Tensor& x, const Tensor& y) { return x.lt(y); }
inline Tensor operator<(const Tensor& x, Scalar y) { return x.lt(y); }
inline Tensor operator<=(const Tensor& x, const Tensor& y) { return x.le(y); }
inline Tensor operator<=(const Tensor& x, Scalar y) { return x.le(y); }
inline Tensor operator>(const Tensor& x, const Tensor& y) { return x.gt(y); }
inline Tensor operator>(const Tensor& x, Scalar y) { return x.gt(y); }
inline Tensor operator>=(const Tensor& x, const Tensor& y) { return x.ge(y); }
inline Tensor operator>=(const Tensor& x, Scalar y) { return x.ge(y); }

/// x where `mask` (bool), y elsewhere. All three broadcast; x and y promote.
Tensor where(const Tensor& mask, const Tensor& x, const Tensor& y);
Tensor where(const Tensor& mask, const Tensor& x, Scalar y);
Tensor where(const Tensor& mask, Scalar x, const Tensor& y);
Tensor where(const Tensor& mask, Scalar x, Scalar y);  ///< float32, int64 or bool, as `tensor(x)` is

/// Whether sizes and all elements are equal; dtypes must be (DTypeError). NaN equals nothing. Waits for a device.
bool equal(const Tensor& x, const Tensor& y);
/// Whether |x - y| <= atol + rtol |y| for all elements; sizes broadcast. Equal infinities are close, and NaNs only with
/// `equal_nan`. Waits for a device.
bool allclose(const Tensor& x, const Tensor& y, double rtol = 1e-5, double atol = 1e-8, bool equal_nan = false);

/// For each element what `allclose` asks of all: bool.
Tensor isclose(const Tensor& x, const Tensor& y, double rtol = 1e-5, double atol = 1e-8, bool equal_nan = false);

/// x kept within [low, high]; either bound may be missing, not both. The gradient is 0 on a bound. Where the bounds
/// cross, the upper one wins; where one is NaN, all become NaN. The result's dtype is that of x + low + high: integers
/// beside a floating bound give float32. DTypeError where no number of an integer dtype is on the right side of a bound
/// (uint8 above 300), and for bool beside bools.
inline Tensor clamp(const Tensor& x, std::optional<Scalar> low, std::optional<Scalar> high) {
  return x.clamp(low, high);
}

/// x with `value` where `mask` (bool, broadcasts to x's shape) is true.
inline Tensor masked_fill(const Tensor& x, const Tensor& mask, Scalar value) { return x.masked_fill(mask, value); }

}  // namespace tendril

TENDRIL_API_END
