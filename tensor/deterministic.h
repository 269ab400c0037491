#pragma once

#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril {

/// Whether every operation gives the same bits on the same machine, however many threads it uses and however often it
/// is run. Off at first; a setting of the process, for what is called from then on. Thread-safe.
///
/// Without, this depends on num_threads(), though not on who else computes: large products (matmul, linear, recurrent
/// layers) of float32 and bfloat16, and the gradients of convolutions' filters, which have parts for so many threads.
/// Each element of a product of k terms stays within k 2^-24 of the exact sum, times that of the terms' magnitudes
/// (Higham, "Accuracy and stability of numerical algorithms", 3.1), so two numbers of threads within twice that of each
/// other. With it, products are cut by their sizes alone and each part is one thread's, so is a filter's gradient. All
/// other operations of the CPU give the same bits in any case: sums are cut by sizes alone, numbers by index are added
/// in the order of the indices, random numbers depend on seed and place.
///
/// On CUDA devices it is cuda::set_deterministic (docs/cuda.md). It says nothing about gradients that several workers
/// add up in the order in which they arrive, nor about machines with other processors.
void set_deterministic(bool on) noexcept;
/// As set_deterministic left it.
bool deterministic() noexcept;

}  // namespace tendril

TENDRIL_API_END
