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
constexpr T sign_of(T x) {
  return static_cast<T>((x > T(0)) - is_negative(x));
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

/// x^2 + y^2, infinite where that is 0: there atan2's gradient is 0.
template <class T>
constexpr T squared_distance(T x, T y) {
  const T sum = x * x + y * y;
  return sum == T(0) ? std::numeric_limits<T>::infinity() : sum;
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

/// e^x: x = n ln 2 + r, |r| <= ln 2 / 2; e^r by a polynomial (Moshier's Cephes, expf), 2^n by its bits. Overflows to
/// infinity, underflows through the subnormal numbers to 0; NaN stays.
[[gnu::always_inline]] constexpr float exp_without_branches(float x) {
  const float low = x < -104.0F ? -104.0F : x, clamped = low > 89.0F ? 89.0F : low;
  constexpr float kRound = 0x1.8p23F;  // adding it leaves no bits for a fraction
  const float n = (clamped * 1.44269504088896341F + kRound) - kRound;
  const float r = (clamped - n * 0.693359375F) - n * -2.12194440e-4F;
  float y = 1.9875691500e-4F;
  y = y * r + 1.3981999507e-3F;
  y = y * r + 8.3334519073e-3F;
  y = y * r + 4.1665795894e-2F;
  y = y * r + 1.6666665459e-1F;
  y = y * r + 5.0000001201e-1F;
  y = y * (r * r) + r + 1.0F;
  // In two factors: 2^n alone may be out of range where the product is not. NaN has no bits for n: any will do.
  const int32_t whole = n == n ? static_cast<int32_t>(n) : 0, half = whole >> 1;
  const auto power = [](int32_t e) { return __builtin_bit_cast(float, (e + 127) << 23); };
  return y * power(half) * power(whole - half);
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
  if constexpr (std::is_same_v<T, float>) return exp_without_branches(x);
  return std::exp(x);
}
template <class T>
[[gnu::always_inline]] constexpr T hyperbolic_tangent(T x) {
  if constexpr (std::is_same_v<T, float>) return tanh_without_branches(x);
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
/// erf(x) for |x| <= 1, by an odd polynomial (Moshier's Cephes, erff).
[[gnu::always_inline]] constexpr float erf_near_0(float x) {
  const float z = x * x;
  float p = 7.853861353153693e-5F;
  p = p * z - 8.010193625184903e-4F;
  p = p * z + 5.188327685732524e-3F;
  p = p * z - 2.685381193529856e-2F;
  p = p * z + 1.128358514861418e-1F;
  p = p * z - 3.761262582423300e-1F;
  p = p * z + 1.128379165726710e+0F;
  return x * p;
}
/// 1 - erf(x) for x >= 0, to 8 units in the last place: e^(-x^2) by a polynomial of 1 / (1 + x / 2) (Press et al.,
/// "Numerical Recipes", erfcc). x^2 is taken apart, since rounded it would cost digits: that of the upper half of x's
/// digits is exact.
[[gnu::always_inline]] constexpr float erfc_without_branches(float x) {
  const float z = x > 20.0F ? 20.0F : x, t = 1.0F / (1.0F + 0.5F * z);
  const float upper = __builtin_bit_cast(float, __builtin_bit_cast(uint32_t, z) & 0xFFFFF000U);
  float p = 0.17087277F;
  p = p * t - 0.82215223F;
  p = p * t + 1.48851587F;
  p = p * t - 1.13520398F;
  p = p * t + 0.27886807F;
  p = p * t - 0.18628806F;
  p = p * t + 0.09678418F;
  p = p * t + 0.37409196F;
  p = p * t + 1.00002368F;
  p = p * t - 1.26551223F;
  return t * exp_without_branches(p - (z - upper) * (z + upper)) * exp_without_branches(-upper * upper);
}
/// The part of a normal distribution below x.
template <class T>
[[gnu::always_inline]] constexpr T normal_cdf(T x) {
  if constexpr (std::is_same_v<T, float>) {
    const float z = x * 0.70710678118654752440F, a = z < 0.0F ? -z : z;
    const float half = 0.5F * erfc_without_branches(a), far = z < 0.0F ? half : 1.0F - half;
    return a < 0.7F ? 0.5F + 0.5F * erf_near_0(z) : far;
  }
  return T(0.5) * std::erfc(x * T(-0.70710678118654752440));
}

}  // namespace tendril::scalar_math
