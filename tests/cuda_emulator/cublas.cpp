// cuBLAS for the emulated device: the functions that the library calls, as loops that run in stream order. Arguments
// are checked as the cuBLAS manual says that cuBLAS checks them, and some more.
#include <cublas_v2.h>

#include <algorithm>
#include <mutex>
#include <set>

#include "cuda_emulator/cublas_product.h"

struct cublasContext {
  int device = 0;
  cudaStream_t stream = nullptr;
  void* workspace = nullptr;  // null: cuBLAS's own pool
  std::size_t workspace_bytes = 0;
};

namespace {

std::mutex mutex;
std::set<cublasHandle_t> live;  // guarded by mutex

}  // namespace

/// A handle is for the device that was current when it was made.
cublasStatus_t cuda_emulator::look_at(cublasHandle_t handle) {
  {
    const std::lock_guard lock(mutex);
    if (!live.contains(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
  }
  int device = -1;
  if (cudaGetDevice(&device) != cudaSuccess || device != handle->device) return CUBLAS_STATUS_EXECUTION_FAILED;
  return CUBLAS_STATUS_SUCCESS;
}

namespace {

using cuda_emulator::look_at;

bool is_operation(cublasOperation_t op) { return op == CUBLAS_OP_N || op == CUBLAS_OP_T || op == CUBLAS_OP_C; }

cublasStatus_t gemm(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int64_t m, int64_t n,
                    int64_t k, const void* alpha, const void* a, cudaDataType type_a, int64_t lda, long long stride_a,
                    const void* b, cudaDataType type_b, int64_t ldb, long long stride_b, const void* beta, void* c,
                    cudaDataType type_c, int64_t ldc, long long stride_c, int64_t batch, cublasComputeType_t compute) {
  if (const cublasStatus_t status = look_at(handle); status != CUBLAS_STATUS_SUCCESS) return status;
  if (!is_operation(op_a) || !is_operation(op_b) || m < 0 || n < 0 || k < 0 || batch < 0 || !alpha || !beta) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (lda < std::max<int64_t>(1, op_a == CUBLAS_OP_N ? m : k) ||
      ldb < std::max<int64_t>(1, op_b == CUBLAS_OP_N ? k : n) || ldc < std::max<int64_t>(1, m)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (type_a != type_b || type_a != type_c) return CUBLAS_STATUS_NOT_SUPPORTED;
  const bool tf32 = compute == CUBLAS_COMPUTE_32F_FAST_TF32;
  const bool wide = compute == CUBLAS_COMPUTE_64F;
  if (wide != (type_a == CUDA_R_64F) || (tf32 && type_a != CUDA_R_32F) ||
      (!wide && !tf32 && compute != CUBLAS_COMPUTE_32F)) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  if (m == 0 || n == 0 || batch == 0) return CUBLAS_STATUS_SUCCESS;
  if (!c || (k > 0 && (!a || !b))) return CUBLAS_STATUS_INVALID_VALUE;
  const auto scalar = [&](const void* p) {
    return wide ? *static_cast<const double*>(p) : static_cast<double>(*static_cast<const float*>(p));
  };
  return cuda_emulator::multiply(handle->stream, type_a,
                                 {.m = m,
                                  .n = n,
                                  .k = k,
                                  .batch = batch,
                                  .alpha = scalar(alpha),
                                  .beta = scalar(beta),
                                  .a = {a, op_a != CUBLAS_OP_N, lda, stride_a},
                                  .b = {b, op_b != CUBLAS_OP_N, ldb, stride_b},
                                  .c = c,
                                  .ldc = ldc,
                                  .c_batch_stride = stride_c,
                                  .tf32 = tf32,
                                  .workspace = handle->workspace,
                                  .workspace_bytes = handle->workspace_bytes});
}

}  // namespace

extern "C" {

const char* cublasGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_ALLOC_FAILED:
      return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
    default:
      return "CUBLAS_STATUS_INTERNAL_ERROR";
  }
}

const char* cublasGetStatusString(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "success";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "the library was not initialized";
    case CUBLAS_STATUS_ALLOC_FAILED:
      return "the resource allocation failed";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "an unsupported value or parameter was passed to the function";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "the function failed to launch on the GPU";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "the requested functionality is not supported";
    default:
      return "an internal operation failed";
  }
}

cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
  if (!handle) return CUBLAS_STATUS_INVALID_VALUE;
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return CUBLAS_STATUS_NOT_INITIALIZED;
  *handle = new cublasContext{.device = device};
  const std::lock_guard lock(mutex);
  live.insert(*handle);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  const std::lock_guard lock(mutex);
  if (live.erase(handle) == 0) return CUBLAS_STATUS_NOT_INITIALIZED;
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
  if (const cublasStatus_t status = look_at(handle); status != CUBLAS_STATUS_SUCCESS) return status;
  handle->stream = stream;
  handle->workspace = nullptr;  // "unconditionally resets the workspace to the default workspace pool"
  handle->workspace_bytes = 0;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void* workspace, std::size_t bytes) {
  if (const cublasStatus_t status = look_at(handle); status != CUBLAS_STATUS_SUCCESS) return status;
  if (reinterpret_cast<std::uintptr_t>(workspace) % 256 != 0 || (!workspace && bytes > 0)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  handle->workspace = workspace;
  handle->workspace_bytes = bytes;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
  if (const cublasStatus_t status = look_at(handle); status != CUBLAS_STATUS_SUCCESS) return status;
  const int base = mode & ~CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION;
  return base >= CUBLAS_DEFAULT_MATH && base <= CUBLAS_TF32_TENSOR_OP_MATH ? CUBLAS_STATUS_SUCCESS
                                                                           : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int m, int n, int k,
                            const void* alpha, const void* a, cudaDataType type_a, int lda, const void* b,
                            cudaDataType type_b, int ldb, const void* beta, void* c, cudaDataType type_c, int ldc,
                            cublasComputeType_t compute, cublasGemmAlgo_t) {
  return gemm(handle, op_a, op_b, m, n, k, alpha, a, type_a, lda, 0, b, type_b, ldb, 0, beta, c, type_c, ldc, 0, 1,
              compute);
}

cublasStatus_t cublasGemmEx_64(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int64_t m,
                               int64_t n, int64_t k, const void* alpha, const void* a, cudaDataType type_a, int64_t lda,
                               const void* b, cudaDataType type_b, int64_t ldb, const void* beta, void* c,
                               cudaDataType type_c, int64_t ldc, cublasComputeType_t compute, cublasGemmAlgo_t) {
  return gemm(handle, op_a, op_b, m, n, k, alpha, a, type_a, lda, 0, b, type_b, ldb, 0, beta, c, type_c, ldc, 0, 1,
              compute);
}

cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int m,
                                          int n, int k, const void* alpha, const void* a, cudaDataType type_a, int lda,
                                          long long stride_a, const void* b, cudaDataType type_b, int ldb,
                                          long long stride_b, const void* beta, void* c, cudaDataType type_c, int ldc,
                                          long long stride_c, int batch, cublasComputeType_t compute,
                                          cublasGemmAlgo_t) {
  return gemm(handle, op_a, op_b, m, n, k, alpha, a, type_a, lda, stride_a, b, type_b, ldb, stride_b, beta, c, type_c,
              ldc, stride_c, batch, compute);
}

cublasStatus_t cublasGemmStridedBatchedEx_64(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b,
                                             int64_t m, int64_t n, int64_t k, const void* alpha, const void* a,
                                             cudaDataType type_a, int64_t lda, long long stride_a, const void* b,
                                             cudaDataType type_b, int64_t ldb, long long stride_b, const void* beta,
                                             void* c, cudaDataType type_c, int64_t ldc, long long stride_c,
                                             int64_t batch, cublasComputeType_t compute, cublasGemmAlgo_t) {
  return gemm(handle, op_a, op_b, m, n, k, alpha, a, type_a, lda, stride_a, b, type_b, ldb, stride_b, beta, c, type_c,
              ldc, stride_c, batch, compute);
}

}  // extern "C"
