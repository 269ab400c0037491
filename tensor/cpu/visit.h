#pragma once

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

}  // namespace tendril::cpu
