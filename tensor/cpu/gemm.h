#pragma once

#include "tendril/tensor/cpu/level/level.h"

namespace tendril::cpu {

/// One product by whichever of oneDNN and our own loops is faster, on up to num_threads() threads.
/// Throws DTypeError naming `op` where there is no kernel for `dtype`.
void multiply(DType dtype, const Gemm& g, const char* op);

}  // namespace tendril::cpu
