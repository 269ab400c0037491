#pragma once

#include <type_traits>

#include "tendril/tensor/kernels.h"

/// The functions behind `cuda::table`, each in the .cu (or .cpp) file of its family; kernels.h says what they do and
/// with what they are called. They run on the calling thread's current device and stream, and do not wait.
namespace tendril::cuda {

extern const Kernels table;

#define TENDRIL_SLOT(name) std::remove_pointer_t<decltype(Kernels::name)> name;
#include "tendril/tensor/cuda/slots.def"

void matmul_integers(const View& out, const View& a, const View& b);  ///< matmul's part for integers

}  // namespace tendril::cuda
