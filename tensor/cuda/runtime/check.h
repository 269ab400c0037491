#pragma once

#include <cuda_runtime_api.h>

#include "tendril/tensor/error.h"

/// Every call into CUDA is checked: with TENDRIL_CUDA where it may throw.
namespace tendril::cuda {

/// Throws Error: "softmax: cudaLaunchKernel: out of memory (cudaErrorMemoryAllocation)". `op` is the operation that the
/// user asked for, `call` the function that failed.
[[noreturn]] void raise(cudaError_t status, const char* op, const char* call);

inline void check(cudaError_t status, const char* op, const char* call) {
  if (status != cudaSuccess) [[unlikely]]
    raise(status, op, call);
}

}  // namespace tendril::cuda

/// TENDRIL_CUDA("copy", cudaMemcpyAsync, to, from, bytes, cudaMemcpyDefault, stream)
#define TENDRIL_CUDA(op, function, ...) ::tendril::cuda::check(function(__VA_ARGS__), op, #function)
