#pragma once

#include <cstdint>

#include "tendril/tensor/view.h"

/// Single elements of floating views without gaps, for what is computed once a channel or a line.
namespace tendril::cpu {

inline double get(const View& v, int64_t i) {
  switch (v.dtype) {
    case DType::float32:
      return static_cast<double>(v.as<const float>()[i]);
    case DType::float16:
      return static_cast<double>(static_cast<float>(v.as<const Half>()[i]));
    case DType::bfloat16:
      return static_cast<double>(static_cast<float>(v.as<const BFloat16>()[i]));
    default:
      return v.as<const double>()[i];
  }
}
inline double get_or(const View* v, int64_t i, double absent) { return v ? get(*v, i) : absent; }
inline void put(const View& v, int64_t i, double value) {
  switch (v.dtype) {
    case DType::float32:
      v.as<float>()[i] = static_cast<float>(value);
      return;
    case DType::float16:
      v.as<Half>()[i] = Half(static_cast<float>(value));
      return;
    case DType::bfloat16:
      v.as<BFloat16>()[i] = BFloat16(static_cast<float>(value));
      return;
    default:
      v.as<double>()[i] = value;
  }
}

}  // namespace tendril::cpu
