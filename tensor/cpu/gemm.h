#pragma once

#include "tendril/tensor/cpu/level/level.h"

namespace tendril::cpu {

/// One product by whichever of oneDNN and our own loops is faster, on up to num_threads() threads.
/// Throws DTypeError naming `op` where there is no kernel for `dtype`.
void multiply(DType dtype, const Gemm& g, const char* op);
/// The same of float32 or float64 on this thread, for a caller that has shared out its work.
void multiply_alone(DType dtype, const Gemm& g);

}  // namespace tendril::cpu
