#pragma once

#include <cstdint>

#include "tendril/tensor/dtype.h"
#include "tendril/tensor/error.h"

namespace tendril::cpu {

/// f(float{}) or f(double{}), for kernels that the half types, which are computed in float, have none of.
template <class F>
void visit_float_or_double(DType dtype, const char* op, F&& f) {
  if (dtype == kFloat32) return f(float{});
  TENDRIL_CHECK_AS(DTypeError, dtype == kFloat64, op, ": expected a floating dtype, got ", dtype);
  f(double{});
}

/// ... or f of an integer.
template <class F>
void visit_number(DType dtype, const char* op, F&& f) {
  if (dtype == kInt64) return f(int64_t{});
  if (dtype == kInt32) return f(int32_t{});
  if (dtype == kUInt8) return f(uint8_t{});
  visit_float_or_double(dtype, op, f);
}

}  // namespace tendril::cpu
