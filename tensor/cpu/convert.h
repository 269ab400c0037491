#pragma once

#include <cstdint>
#include <type_traits>

#include "tendril/tensor/cpu/loops.h"
#include "tendril/tensor/scalar.h"
#include "tendril/tensor/scalar_math.h"

namespace tendril::cpu {

/// Conversion between element types: scalar_math::converted, by way of float for the half types.
template <class To, class From>
To convert(From from) {
  const auto value = static_cast<Compute<From>>(from);
  if constexpr (std::is_same_v<To, Half> || std::is_same_v<To, BFloat16>) {
    return To(static_cast<float>(value));
  } else {
    return scalar_math::converted<To>(value);
  }
}

template <class T>
T element_of(Scalar value) {
  return value.is_floating() ? convert<T>(value.to<double>()) : convert<T>(value.to<int64_t>());
}

}  // namespace tendril::cpu
