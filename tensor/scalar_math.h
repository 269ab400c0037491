#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

/// The scalar functions that pointwise.def uses beside <cmath>. T is an arithmetic type; integers are served where the
/// table allows them. Everything is `constexpr` only so that device compilers may call it.
namespace tendril::scalar_math {

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

template <class T>
constexpr T magnitude(T x) {
  if constexpr (std::is_floating_point_v<T>) return std::abs(x);
  if constexpr (std::is_signed_v<T>) return x < 0 ? static_cast<T>(-x) : x;
  return x;
}
template <class T>
constexpr T sign_of(T x) {
  return static_cast<T>((x > T(0)) - (x < T(0)));
}
template <class T>
constexpr T positive_part(T x) {  // NaN stays
  return x < T(0) ? T(0) : x;
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

/// Integers: by squaring, wrapping around; a negative exponent gives the truncated fraction (0 unless x is 1 or -1).
template <class T>
constexpr T power(T x, T y) {
  if constexpr (std::is_floating_point_v<T>) {
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

template <class T>
constexpr T logistic(T x) {
  return T(1) / (T(1) + std::exp(-x));
}
template <class T>
constexpr T soft_plus(T x) {  // above 20 the difference to x is below float's precision
  return x > T(20) ? x + std::exp(-x) : std::log1p(std::exp(x));
}
template <class T>
constexpr T normal_cdf(T x) {
  return T(0.5) * std::erfc(x * T(-0.70710678118654752440));
}

}  // namespace tendril::scalar_math
