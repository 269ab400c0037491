#pragma once

#include <cstdint>
#include <type_traits>

#include "tendril/tensor/cpu/loops.h"
#include "tendril/tensor/scalar.h"

namespace tendril::cpu {

/// Conversion between element types. A floating value that does not fit an integer type has no promised result, but is
/// not undefined behaviour.
template <class To, class From>
To convert(From from) {
  using C = Compute<From>;
  const C value = static_cast<C>(from);
  if constexpr (std::is_same_v<To, bool>) {
    return value != C(0);
  } else if constexpr (std::is_same_v<To, Half> || std::is_same_v<To, BFloat16>) {
    return To(static_cast<float>(value));
  } else if constexpr (std::is_floating_point_v<C> && std::is_integral_v<To>) {
    constexpr C limit = static_cast<C>(9223372036854775808.0);
    const bool fits = value >= -limit && value < limit;
    return static_cast<To>(fits ? static_cast<int64_t>(value) : INT64_MIN);
  } else {
    return static_cast<To>(value);
  }
}

template <class T>
T element_of(Scalar value) {
  return value.is_floating() ? convert<T>(value.to<double>()) : convert<T>(value.to<int64_t>());
}

}  // namespace tendril::cpu
