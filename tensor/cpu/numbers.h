#pragma once

#include <cstdint>

#include "tendril/tensor/view.h"

/// Single elements of float32 or float64 views without gaps, for what is computed once a channel or a line.
namespace tendril::cpu {

inline double get(const View& v, int64_t i) {
  return v.dtype == kFloat32 ? static_cast<double>(v.as<const float>()[i]) : v.as<const double>()[i];
}
inline double get_or(const View* v, int64_t i, double absent) { return v ? get(*v, i) : absent; }
inline void put(const View& v, int64_t i, double value) {
  if (v.dtype == kFloat32) {
    v.as<float>()[i] = static_cast<float>(value);
  } else {
    v.as<double>()[i] = value;
  }
}

}  // namespace tendril::cpu
