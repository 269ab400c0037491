#pragma once

#include <cublas_v2.h>

#include <cstddef>
#include <mutex>

#include "tendril/tensor/error.h"
#include "tendril/tensor/view.h"

/// cuBLAS.
namespace tendril::cuda {

/// Throws Error: "matmul: cublasGemmEx: an unsupported value ... (CUBLAS_STATUS_INVALID_VALUE)".
[[noreturn]] void raise(cublasStatus_t status, const char* op, const char* call);

inline void check(cublasStatus_t status, const char* op, const char* call) {
  if (status != CUBLAS_STATUS_SUCCESS) [[unlikely]]
    raise(status, op, call);
}

/// A cuBLAS handle of the device that was current when it was made; see thread_handle.
class Blas {
 public:
  Blas();
  ~Blas();
  Blas(const Blas&) = delete;
  Blas& operator=(const Blas&) = delete;

  cublasHandle_t get() const noexcept { return handle_; }
  /// How much scratch memory its calls want.
  std::size_t scratch_bytes() const noexcept { return scratch_bytes_; }

 private:
  cublasHandle_t handle_ = nullptr;
  std::size_t scratch_bytes_ = 0;
};

/// To be held while cuBLAS or cuBLASLt is called: the calling thread's handle, set to its current device and stream,
/// and scratch memory of our allocator's, a stream's, whichever threads multiply on it. While it lives other threads
/// wait to make theirs for that stream: a product that is cut along k is several kernels, which leave parts of it in
/// the scratch memory for one another, and another product's kernel must not come between them.
class BlasCall {
 public:
  BlasCall();

  cublasHandle_t handle() const noexcept { return handle_; }
  void* scratch() const noexcept { return scratch_; }
  std::size_t scratch_bytes() const noexcept { return scratch_bytes_; }

 private:
  cublasHandle_t handle_;
  std::size_t scratch_bytes_;
  void* scratch_ = nullptr;
  std::unique_lock<std::mutex> alone_;
};

/// What cuBLAS is told of a floating dtype: sums are float32 for the half types. DTypeError naming `op` for others.
struct BlasTypes {
  cudaDataType_t data, scalars;
  cublasComputeType_t compute;
};
BlasTypes blas_types(DType dtype, bool tf32, const char* op);

/// Kernels::matmul for floating dtypes, by cuBLAS; sums are float32 for the half types. `tf32` is for float32 (see
/// math_mode.h). With `accumulate` the product is added to what is in `out`. Does not wait. Throws Error, naming `op`.
void multiply(const char* op, const View& out, const View& a, const View& b, bool tf32, bool accumulate = false);

}  // namespace tendril::cuda

/// TENDRIL_CUBLAS("matmul", cublasSetStream, handle, stream)
#define TENDRIL_CUBLAS(op, function, ...) ::tendril::cuda::check(function(__VA_ARGS__), op, #function)
