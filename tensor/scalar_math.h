#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>

/// The scalar functions that pointwise.def uses beside <cmath>. T is an arithmetic type; integers are served where the
/// table allows them. Everything is `constexpr` only so that device compilers may call it.
namespace tendril::scalar_math {

constexpr int unfused = 0;  ///< stands in the table where there is no expression

template <class T>
constexpr bool is_nan(T x) {
  if constexpr (std::is_floating_point_v<T>) return x != x;
  return false;
}
template <class T>
constexpr bool is_inf(T x) {
  if constexpr (std::is_floating_point_v<T>) {
    return x == std::numeric_limits<T>::infinity() || x == -std::numeric_limits<T>::infinity();
  }
  return false;
}

/// A number as another arithmetic type. A floating value that does not fit an integer type has no promised result, but
/// is not undefined behaviour.
template <class To, class From>
constexpr To converted(From value) {
  if constexpr (std::is_same_v<To, bool>) {
    return value != From(0);
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    constexpr From limit = static_cast<From>(9223372036854775808.0);
    const bool fits = value >= -limit && value < limit;
    return static_cast<To>(fits ? static_cast<int64_t>(value) : INT64_MIN);
  } else {
    return static_cast<To>(value);
  }
}

// ---- integers wrap around: computed in the unsigned type, as overflow of a signed one is undefined.
template <class T>
struct WrapsIn {
  using type = T;
};
template <std::signed_integral T>
struct WrapsIn<T> {
  using type = std::make_unsigned_t<T>;
};
template <class T>
using Wrapping = typename WrapsIn<T>::type;

template <class T>
[[gnu::always_inline]] constexpr T added(T x, T y) {
  return static_cast<T>(static_cast<Wrapping<T>>(x) + static_cast<Wrapping<T>>(y));
}
template <class T>
[[gnu::always_inline]] constexpr T subtracted(T x, T y) {
  return static_cast<T>(static_cast<Wrapping<T>>(x) - static_cast<Wrapping<T>>(y));
}
template <class T>
[[gnu::always_inline]] constexpr T multiplied(T x, T y) {
  return static_cast<T>(static_cast<Wrapping<T>>(x) * static_cast<Wrapping<T>>(y));
}
template <class T>
[[gnu::always_inline]] constexpr T negated(T x) {
  if constexpr (std::is_integral_v<T>) return subtracted(T(0), x);
  return -x;
}

template <class T>
[[gnu::always_inline]] constexpr T magnitude(T x) {
  if constexpr (std::is_floating_point_v<T>) return std::abs(x);
  if constexpr (std::is_signed_v<T>) return x < 0 ? negated(x) : x;
  return x;
}
template <class T>
[[gnu::always_inline]] constexpr bool is_negative(T x) {
  if constexpr (std::is_unsigned_v<T>)
    return false;
  else
    return x < T(0);
}
template <class T>
constexpr T sign_of(T x) {  // NaN stays
  const T sign = static_cast<T>((x > T(0)) - is_negative(x));
  return is_nan(x) ? x : sign;
}
template <class T>
constexpr T positive_part(T x) {  // NaN stays
  return is_negative(x) ? T(0) : x;
}

template <class T>
constexpr T round_down(T x) {
  if constexpr (std::is_floating_point_v<T>) return std::floor(x);
  return x;
}
template <class T>
constexpr T round_up(T x) {
  if constexpr (std::is_floating_point_v<T>) return std::ceil(x);
  return x;
}
template <class T>
constexpr T round_to_zero(T x) {
  if constexpr (std::is_floating_point_v<T>) return std::trunc(x);
  return x;
}
template <class T>
constexpr T round_to_even(T x) {
  if constexpr (std::is_floating_point_v<T>) return std::nearbyint(x);
  return x;
}

template <class T>
constexpr T larger(T x, T y) {
  return x > y || is_nan(x) ? x : y;
}
template <class T>
constexpr T smaller(T x, T y) {
  return x < y || is_nan(x) ? x : y;
}

/// x, of which infinities become -1000 and 1000. Functions that are constant or linear beyond these bounds use it where
/// an infinite x would meet a factor of 0.
template <class T>
constexpr T bounded(T x) {
  return smaller(larger(x, T(-1000)), T(1000));
}
/// ... of which -infinity becomes -1000.
template <class T>
constexpr T bounded_below(T x) {
  return larger(x, T(-1000));
}

/// sqrt(x^2 + 1), without overflow.
template <class T>
constexpr T root_of_square_and_one(T x) {
  const T a = magnitude(x);
  return a > T(1e9) ? a : std::sqrt(x * x + T(1));
}

/// x / (x^2 + y^2), without overflow; 0 at the origin and where x or y is infinite: the gradient of atan2.
template <class T>
constexpr T over_squared_distance(T x, T y) {
  const T distance = std::hypot(x, y);
  return distance == T(0) || is_inf(distance) ? T(0) : x / distance / distance;
}

/// x / sqrt(x^2 + y^2), without overflow: the gradient of hypot. 0 at the origin, -1 or 1 where x is infinite.
template <class T>
constexpr T over_distance(T x, T y) {
  if (is_inf(x)) return std::copysign(T(1), x);
  const T distance = std::hypot(x, y);
  return distance == T(0) ? T(0) : x / distance;
}

/// Integers: by squaring, wrapping around; a negative exponent gives the truncated fraction (0 unless x is 1 or -1).
template <class T>
constexpr T power(T x, T y) {
  if constexpr (std::is_floating_point_v<T>) {
    if (y == T(2)) return x * x;  // (asked outside of a loop over one exponent)
    if (y == T(3)) return x * x * x;
    if (y == T(1)) return x;
    return std::pow(x, y);
  } else {
    using U = std::make_unsigned_t<T>;
    if constexpr (std::is_signed_v<T>) {
      if (y < 0) return x == 1 ? T(1) : x == -1 ? (y % 2 == 0 ? T(1) : T(-1)) : T(0);
    }
    U result = 1;
    U base = static_cast<U>(x);
    for (U rest = static_cast<U>(y); rest != 0; rest = static_cast<U>(rest >> 1)) {
      if (rest & 1) result = static_cast<U>(result * base);
      base = static_cast<U>(base * base);
    }
    return static_cast<T>(result);
  }
}

/// The derivatives of x^y by x and y: 0 where a power that vanishes meets an infinite factor. By y also 0 at x = 0 for
/// y >= 0.
template <class T>
constexpr T power_by_base(T x, T y) {
  if (y == T(0)) return T(0);
  const T exponent = y - T(1), rest = power(x, exponent);
  if (rest == T(0)) return T(0);
  // All numbers of magnitude 2^digits and above are even. If y is one of them, the odd number y - 1 is rounded to an
  // even one, and the power of a negative x loses its sign.
  constexpr T kAllEven = T(uint64_t{1} << std::numeric_limits<T>::digits);
  constexpr T kInfinity = std::numeric_limits<T>::infinity();
  const bool rounded = (exponent >= kAllEven && y < kInfinity) || (y <= -kAllEven && y > -kInfinity);
  return rounded && (x < T(0) || T(1) / x < T(0)) ? -(y * rest) : y * rest;  // including -0
}
template <class T>
constexpr T power_by_exponent(T x, T y) {
  const T result = power(x, y);
  return x >= T(0) && (result == T(0) || (x == T(0) && y >= T(0))) ? T(0) : result * std::log(x);
}

/// Of the dividend's sign, and (floored) of the divisor's. Integers: 0 for a divisor of 0; nothing overflows.
template <class T>
constexpr T truncated_remainder(T x, T y) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::fmod(x, y);
  } else {
    if (y == T(0)) return T(0);
    if constexpr (std::is_signed_v<T>) {
      if (y == T(-1)) return T(0);  // the smallest number has no quotient
    }
    return static_cast<T>(x % y);
  }
}
template <class T>
constexpr T floored_remainder(T x, T y) {
  const T rest = truncated_remainder(x, y);
  return rest != T(0) && is_negative(rest) != is_negative(y) ? static_cast<T>(rest + y) : rest;
}

/// x / y rounded down. Integers: 0 for a divisor of 0; the smallest number by -1 wraps around.
template <class T>
constexpr T floored_quotient(T x, T y) {
  if constexpr (std::is_floating_point_v<T>) {
    if (y == T(0)) return x / y;
    const T rest = std::fmod(x, y);  // by which it is exact where x / y is rounded up to a whole number
    const T quotient = (x - rest) / y - (rest != T(0) && is_negative(rest) != is_negative(y) ? T(1) : T(0));
    const T whole = std::floor(quotient);
    return quotient - whole > T(0.5) ? whole + T(1) : whole;
  } else {
    if (y == T(0)) return T(0);
    if constexpr (std::is_signed_v<T>) {
      if (y == T(-1)) return negated(x);
    }
    return static_cast<T>(x / y - (x % y != 0 && is_negative(x) != is_negative(y) ? 1 : 0));
  }
}

template <class T>
constexpr bool is_bit_place(T y) {
  return !is_negative(y) && y < static_cast<T>(8 * sizeof(T));
}
template <class T>
constexpr T shifted_left(T x, T y) {
  return is_bit_place(y) ? static_cast<T>(static_cast<Wrapping<T>>(x) << y) : T(0);
}
template <class T>
constexpr T shifted_right(T x, T y) {
  return is_bit_place(y) ? static_cast<T>(x >> y) : is_negative(x) ? static_cast<T>(-1) : T(0);
}

// ---- exp and tanh of float32 without branches or calls, so that compilers make vector code of loops over them.
// Within 1.5 units in the last place. Always inlined: loops are compiled for several processors (cpu/level/level.h).
// A GPU has instructions for the most of it: there CUDA's own functions, within 2 units (normcdff 5), are a half to a
// quarter of the instructions.
#ifdef __CUDA_ARCH__
inline constexpr bool kOwnFunctions = false;
#else
inline constexpr bool kOwnFunctions = true;
#endif

/// x = n ln 2 + r, |r| <= ln 2 / 2, for |x| < 2^21. Where x is NaN r is, and n is any number.
struct ReducedExponent {
  uint32_t n;  // modulo 2^32
  float r;
};
[[gnu::always_inline]] constexpr ReducedExponent reduced_exponent(float x) {
  constexpr float kRound = 0x1.8p23F;  // adding it leaves no bits for a fraction: the lowest are n's
  const float sum = x * 1.44269504088896341F + kRound, n = sum - kRound;
  return {__builtin_bit_cast(uint32_t, sum) - __builtin_bit_cast(uint32_t, kRound),
          (x - n * 0.693359375F) - n * -2.12194440e-4F};
}
/// 2^n e^r for -254 <= n <= 256: e^r by a polynomial (Moshier's Cephes, expf), 2^n by its bits.
[[gnu::always_inline]] constexpr float exp_of_reduced(ReducedExponent x) {
  const float r = x.r, square = r * r;
  // In pairs (Estrin 1960): processors wait for a chain of products longer than they have room for others.
  const float high = (1.9875691500e-4F * r + 1.3981999507e-3F) * square + (8.3334519073e-3F * r + 4.1665795894e-2F);
  const float y = (high * square + (1.6666665459e-1F * r + 5.0000001201e-1F)) * square + r + 1.0F;
  // In two factors, whose exponents' biases (127) are added before the halving: 2^n alone may be out of range where
  // the product is not.
  const uint32_t biased = x.n + 254, half = biased >> 1;
  return y * __builtin_bit_cast(float, half << 23) * __builtin_bit_cast(float, (biased - half) << 23);
}
/// e^x. Overflows to infinity, underflows through the subnormal numbers to 0; NaN stays.
[[gnu::always_inline]] constexpr float exp_without_branches(float x) {
  // Bits compare as whole numbers: with a sign, those above 89's are of numbers above 89, or NaN; without one, those
  // above -104's are of numbers below -104, or NaN. Of comparisons of floats compilers make twice as many instructions.
  const auto most = __builtin_bit_cast(int32_t, 89.0F), bits = __builtin_bit_cast(int32_t, x);
  const auto below = static_cast<uint32_t>(bits < most ? bits : most), least = __builtin_bit_cast(uint32_t, -104.0F);
  const float y = exp_of_reduced(reduced_exponent(__builtin_bit_cast(float, below < least ? below : least)));
  return x == x ? y : x;
}

/// Odd: the sign is put back at the end. Below 0.625 a polynomial (Cephes, tanhf), above 1 - 2 / (e^2x + 1).
[[gnu::always_inline]] constexpr float tanh_without_branches(float x) {
  const auto bits = __builtin_bit_cast(uint32_t, x);
  const uint32_t sign = bits & 0x80000000U;
  const float a = __builtin_bit_cast(float, bits ^ sign), z = a * a;
  float p = -5.70498872745e-3F;
  p = p * z + 2.06390887954e-2F;
  p = p * z - 5.37397155531e-2F;
  p = p * z + 1.33314422036e-1F;
  p = p * z - 3.33332819422e-1F;
  const float small = p * z * a + a, large = 1.0F - 2.0F / (exp_without_branches(a + a) + 1.0F);
  return __builtin_bit_cast(float, __builtin_bit_cast(uint32_t, a < 0.625F ? small : large) | sign);
}

template <class T>
[[gnu::always_inline]] constexpr T exponential(T x) {
  if constexpr (std::is_same_v<T, float> && kOwnFunctions) return exp_without_branches(x);
  return std::exp(x);
}
template <class T>
[[gnu::always_inline]] constexpr T hyperbolic_tangent(T x) {
  if constexpr (std::is_same_v<T, float> && kOwnFunctions) return tanh_without_branches(x);
  return std::tanh(x);
}
template <class T>
[[gnu::always_inline]] constexpr T logistic(T x) {
  return T(1) / (T(1) + exponential(-x));
}
template <class T>
constexpr T soft_plus(T x) {  // above 20 the difference to x is below float's precision
  return x > T(20) ? x + std::exp(-x) : std::log1p(std::exp(x));
}
template <class T>
constexpr T squared_hyperbolic_cosine(T x) {
  return std::cosh(x) * std::cosh(x);
}
/// Of a normal distribution at a = |x|, up to 15 (beyond which float32 has nothing left of it): e^(-a^2 / 2), and the
/// part beyond a as a multiple of that, which is erfcx(a / sqrt 2) / 2. Their product is within 8 units in the last
/// place.
struct NormalTail {
  float a, exponential, beyond;
};
[[gnu::always_inline]] constexpr NormalTail normal_tail(float x) {
  const float wide = x < 0.0F ? -x : x, a = wide > 15.0F ? 15.0F : wide;
  // a^2 is taken apart, since rounded it would cost digits: that of the upper half of a's digits is exact.
  const float upper = __builtin_bit_cast(float, __builtin_bit_cast(uint32_t, a) & 0xFFFFF000U);
  ReducedExponent exponent = reduced_exponent(upper * upper * -0.5F);
  exponent.r += (a - upper) * (a + upper) * -0.5F;
  // t times a polynomial of a t whose largest relative error is least (3.6e-8), after the form of Abramowitz and
  // Stegun, 7.1.26. Not a polynomial of t: near 0 an error of t would make one three times as large.
  const float t = 1.0F / (1.0F + 0.35F * a), u = a * t;
  float p = -6.514452252e-6F;
  p = p * u + 5.688155943e-5F;
  p = p * u - 1.154838101e-4F;
  p = p * u - 8.958088438e-5F;
  p = p * u - 9.564349311e-4F;
  p = p * u + 4.395917524e-3F;
  p = p * u + 3.197986633e-2F;
  p = p * u - 2.239415199e-1F;
  p = p * u + 0.5F;
  return {a, exp_of_reduced(exponent), p * t};
}
/// The part of a normal distribution below x.
template <class T>
[[gnu::always_inline]] constexpr T normal_cdf(T x) {
#ifdef __CUDA_ARCH__
  if constexpr (std::is_same_v<T, float>) return normcdff(x);
#endif
  if constexpr (std::is_same_v<T, float>) {
    const NormalTail tail = normal_tail(x);
    const float beyond = tail.exponential * tail.beyond;
    return x < 0.0F ? beyond : 1.0F - beyond;
  }
  return T(0.5) * std::erfc(x * T(-0.70710678118654752440));
}
/// The derivative of x normal_cdf(x).
template <class T>
[[gnu::always_inline]] constexpr T gelu_slope(T x) {
  constexpr T kDensity = T(0.39894228040143267794);  // of the normal distribution at 0
  if constexpr (std::is_same_v<T, float> && kOwnFunctions) {
    const NormalTail tail = normal_tail(x);
    const float slope = tail.exponential * (tail.beyond - tail.a * kDensity);  // at -a; that at a is 1 less it
    return x < 0.0F ? slope : 1.0F - slope;
  }
  const T near = bounded(x);
  return normal_cdf(x) + near * exponential(near * near * T(-0.5)) * kDensity;
}
/// 2 sqrt(2 / pi) (x + 0.044715 x^3): 0.5 (1 + tanh(v / 2)) is logistic(v), which keeps its digits far below 0.
template <class T>
[[gnu::always_inline]] constexpr T gelu_tanh_exponent(T x) {
  return x * (x * x * T(0.07135481627260025) + T(1.5957691216057308));
}
/// The derivative of x logistic(gelu_tanh_exponent(x)). Beyond 30 it is 0 and 1 to the last bit, and its factors would
/// overflow.
template <class T>
[[gnu::always_inline]] constexpr T gelu_tanh_slope(T x) {
  const T near = x < T(-30) ? T(-30) : x > T(30) ? T(30) : x, v = gelu_tanh_exponent(near);
  return logistic(v) * (near * logistic(-v) * (near * near * T(0.21406444881780076) + T(1.5957691216057308)) + T(1));
}

}  // namespace tendril::scalar_math
