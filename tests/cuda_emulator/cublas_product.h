#pragma once

#include <cublas_v2.h>

#include <cstddef>
#include <cstdint>

/// What cublas.cpp and cublas_lt.cpp of the emulated device have in common: a product, in BLAS's words.
namespace cuda_emulator {

struct Operand {
  const void* data;
  bool transposed;
  int64_t ld;
  long long batch_stride = 0;
};

struct Product {
  int64_t m, n, k, batch = 1;
  double alpha, beta;
  Operand a, b;
  void* c;
  int64_t ldc;
  long long c_batch_stride = 0;
  bool tf32;
  void* workspace;
  std::size_t workspace_bytes;
  const void* bias = nullptr;              ///< a number for each row of c, added before the result is rounded
  double (*activation)(double) = nullptr;  ///< of the result, before it is rounded
};

/// Queues it, for elements of `type`.
cublasStatus_t multiply(cudaStream_t stream, cudaDataType type, const Product& product);
/// Whether a handle is one, and for the current device.
cublasStatus_t look_at(cublasHandle_t handle);

}  // namespace cuda_emulator
