#pragma once

#include "tendril/tensor/kernels.h"

/// The functions behind `cuda::table`, each in the .cu (or .cpp) file of its family; kernels.h says what they do. They
/// run on the calling thread's current device and stream, and do not wait.
namespace tendril::cuda {

extern const Kernels table;

void matmul(const View& out, const View& a, const View& b);
void matmul_integers(const View& out, const View& a, const View& b);  ///< its part for integers

}  // namespace tendril::cuda
