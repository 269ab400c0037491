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

/// Of cudaEventQuery's or cudaStreamQuery's answer: it is not done yet. That is no error, but CUDA keeps it as its last
/// one, which CUB would take for its own; so it is forgotten here.
inline bool is_pending(cudaError_t answer) noexcept {
  if (answer != cudaErrorNotReady) return false;
  cudaGetLastError();
  return true;
}

}  // namespace tendril::cuda

/// TENDRIL_CUDA("copy", cudaMemcpyAsync, to, from, bytes, cudaMemcpyDefault, stream)
#define TENDRIL_CUDA(op, function, ...) ::tendril::cuda::check(function(__VA_ARGS__), op, #function)
