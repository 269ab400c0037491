#pragma once

#include "tendril/tensor/kernels.h"

namespace tendril::cuda {

/// What kernels of the unary operations are told.
struct UnaryCall {
  Unary op;
  double p;  ///< of those that have a number
};

}  // namespace tendril::cuda
