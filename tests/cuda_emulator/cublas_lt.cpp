// cuBLASLt for the emulated device: the functions that a linear layer calls. An algorithm is for the product that its
// heuristics were asked about, with the workspace and the alignment that they were promised, and refuses others;
// float64 has none. Of NaN its ReLU makes 0, which the words for it, max(x, 0), permit.
#include <cublasLt.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include "cuda_emulator/cublas_product.h"
#include "cuda_emulator/emulator.h"
#include "cuda_emulator/failures.h"

namespace {

/// What lies in the opaque descriptors.
struct Task {
  int32_t compute, scalars, op_a, op_b;
  uint32_t epilogue;
  const void* bias;
};
struct Layout {
  int32_t type;
  uint64_t rows, columns;
  int64_t ld;
};
struct Preference {
  std::size_t workspace;
  uint32_t alignment[4];
};
struct Algorithm {
  uint64_t product;  // of what
  std::size_t workspace;
  uint32_t alignment[4], bias_alignment;
};

template <class T, class Opaque>
T& in(Opaque* opaque) {
  static_assert(sizeof(T) <= sizeof(Opaque));
  return *reinterpret_cast<T*>(opaque);
}
template <class T, class Opaque>
const T& in(const Opaque* opaque) {
  return *reinterpret_cast<const T*>(opaque);
}

/// A descriptor's attribute, if `size` is its.
template <class T>
cublasStatus_t put(T& attribute, const void* value, std::size_t size) {
  if (!value || size != sizeof(T)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&attribute, value, size);
  return CUBLAS_STATUS_SUCCESS;
}

/// As a pointer is aligned, up to 256 bytes.
uint32_t alignment_of(const void* p) {
  const auto address = reinterpret_cast<std::uintptr_t>(p);
  return address == 0 ? 256 : static_cast<uint32_t>(std::min<std::uintptr_t>(address & (~address + 1), 256));
}

/// What an epilogue does after the bias; false: an epilogue that is not known here.
using Activation = double (*)(double);
bool find_activation(uint32_t epilogue, Activation& found) {
  switch (epilogue & ~uint32_t{CUBLASLT_EPILOGUE_BIAS}) {
    case 0:  // CUBLASLT_EPILOGUE_BIAS itself: the default is a bit of its own
    case CUBLASLT_EPILOGUE_DEFAULT:
      found = nullptr;
      return epilogue == CUBLASLT_EPILOGUE_BIAS || epilogue == CUBLASLT_EPILOGUE_DEFAULT;
    case CUBLASLT_EPILOGUE_RELU:
      found = [](double x) { return std::fmax(x, 0); };
      return true;
    case CUBLASLT_EPILOGUE_GELU:
      found = [](double x) { return 0.5 * x * (1 + std::tanh(0.79788456080286536 * (x + 0.044715 * x * x * x))); };
      return true;
    default:
      return false;
  }
}

struct Described {
  const Task& task;
  const Layout &a, &b, &c, &d;

  uint64_t hash() const {
    uint64_t result = 1469598103934665603u;
    for (const int32_t word : {task.compute, task.scalars, task.op_a, task.op_b, static_cast<int32_t>(task.epilogue)}) {
      result = (result ^ static_cast<uint64_t>(word)) * 1099511628211u;
    }
    for (const Layout* l : {&a, &b, &c, &d}) {
      for (const uint64_t word : {static_cast<uint64_t>(l->type), l->rows, l->columns, static_cast<uint64_t>(l->ld)}) {
        result = (result ^ word) * 1099511628211u;
      }
    }
    return result;
  }
  uint64_t k() const { return task.op_a == CUBLAS_OP_N ? a.columns : a.rows; }
  cublasStatus_t look() const {
    for (const Layout* l : {&a, &b, &c, &d}) {
      if (l->rows == 0 || l->columns == 0 || l->ld < static_cast<int64_t>(l->rows)) return CUBLAS_STATUS_INVALID_VALUE;
      if (l->type != d.type) return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    const auto [m, ka] = task.op_a == CUBLAS_OP_N ? std::pair(a.rows, a.columns) : std::pair(a.columns, a.rows);
    const auto [kb, n] = task.op_b == CUBLAS_OP_N ? std::pair(b.rows, b.columns) : std::pair(b.columns, b.rows);
    if (ka != kb || m != d.rows || n != d.columns || c.rows != m || c.columns != n) return CUBLAS_STATUS_INVALID_VALUE;
    if ((task.epilogue & CUBLASLT_EPILOGUE_BIAS) && !task.bias) return CUBLAS_STATUS_INVALID_VALUE;
    Activation unused;
    const bool known =
        task.scalars == CUDA_R_32F &&
        (task.compute == CUBLAS_COMPUTE_32F || (task.compute == CUBLAS_COMPUTE_32F_FAST_TF32 && d.type == CUDA_R_32F));
    return known && find_activation(task.epilogue, unused) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
  }
};

int next_status = CUBLAS_STATUS_SUCCESS;

}  // namespace

void cuda_emulator::fail_next_linear(int status) { next_status = status; }

extern "C" {

cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t desc, std::size_t size, cublasComputeType_t compute,
                                               cudaDataType_t scalars) {
  if (!desc || size < sizeof(Task)) return CUBLAS_STATUS_INVALID_VALUE;
  in<Task>(desc) = {compute, scalars, CUBLAS_OP_N, CUBLAS_OP_N, CUBLASLT_EPILOGUE_DEFAULT, nullptr};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, std::size_t size) {
  Task& task = in<Task>(desc);
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return put(task.op_a, value, size);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return put(task.op_b, value, size);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return put(task.epilogue, value, size);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return put(task.bias, value, size);
    default:
      return CUBLAS_STATUS_INVALID_VALUE;
  }
}

cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t layout, std::size_t size, cudaDataType type,
                                                 uint64_t rows, uint64_t columns, int64_t ld) {
  if (!layout || size < sizeof(Layout)) return CUBLAS_STATUS_INVALID_VALUE;
  in<Layout>(layout) = {type, rows, columns, ld};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t preference, std::size_t size) {
  if (!preference || size < sizeof(Preference)) return CUBLAS_STATUS_INVALID_VALUE;
  in<Preference>(preference) = {0, {256, 256, 256, 256}};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, const void* value,
                                                    std::size_t size) {
  Preference& p = in<Preference>(preference);
  uint32_t reductions = 0;
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return put(p.workspace, value, size);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      return put(reductions, value, size);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      return put(p.alignment[attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES], value, size);
    default:
      return CUBLAS_STATUS_INVALID_VALUE;
  }
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t results[], int* count) {
  const auto blas = reinterpret_cast<cublasHandle_t>(handle);
  if (const cublasStatus_t status = cuda_emulator::look_at(blas); status != CUBLAS_STATUS_SUCCESS) return status;
  *count = 0;
  const Described what{in<Task>(desc), in<Layout>(a), in<Layout>(b), in<Layout>(c), in<Layout>(d)};
  if (const cublasStatus_t status = what.look(); status != CUBLAS_STATUS_SUCCESS) return status;
  if (wanted < 1) return CUBLAS_STATUS_INVALID_VALUE;
  if (const int status = cuda_emulator::planned_failure(cuda_emulator::Planning::linear); status != 0) {
    return static_cast<cublasStatus_t>(status);
  }
  const Preference& p = in<Preference>(preference);
  Algorithm algorithm{what.hash(), p.workspace, {}, alignment_of(what.task.bias)};
  std::copy(p.alignment, p.alignment + 4, algorithm.alignment);
  results[0] = {};
  in<Algorithm>(&results[0].algo) = algorithm;
  results[0].workspaceSize = p.workspace;
  *count = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout,
                              const void* beta, const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algo, void* workspace,
                              std::size_t workspace_bytes, cudaStream_t stream) {
  const auto blas = reinterpret_cast<cublasHandle_t>(handle);
  if (const cublasStatus_t status = cuda_emulator::look_at(blas); status != CUBLAS_STATUS_SUCCESS) return status;
  if (next_status != CUBLAS_STATUS_SUCCESS) {
    return static_cast<cublasStatus_t>(std::exchange(next_status, CUBLAS_STATUS_SUCCESS));
  }
  const Described what{in<Task>(desc), in<Layout>(a_layout), in<Layout>(b_layout), in<Layout>(c_layout),
                       in<Layout>(d_layout)};
  if (const cublasStatus_t status = what.look(); status != CUBLAS_STATUS_SUCCESS) return status;
  const Algorithm& algorithm = in<Algorithm>(algo);
  const std::array<const void*, 4> operands{a, b, c, d};
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (!operands[i] || alignment_of(operands[i]) < algorithm.alignment[i]) return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (algorithm.product != what.hash() || workspace_bytes < algorithm.workspace || alignment_of(workspace) < 16 ||
      alignment_of(what.task.bias) < algorithm.bias_alignment) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  Activation activation = nullptr;
  find_activation(what.task.epilogue, activation);
  return cuda_emulator::multiply(stream, static_cast<cudaDataType>(what.d.type),
                                 {.m = static_cast<int64_t>(what.d.rows),
                                  .n = static_cast<int64_t>(what.d.columns),
                                  .k = static_cast<int64_t>(what.k()),
                                  .alpha = *static_cast<const float*>(alpha),
                                  .beta = *static_cast<const float*>(beta),
                                  .a = {a, what.task.op_a != CUBLAS_OP_N, what.a.ld},
                                  .b = {b, what.task.op_b != CUBLAS_OP_N, what.b.ld},
                                  .c = d,
                                  .ldc = what.d.ld,
                                  .tf32 = what.task.compute == CUBLAS_COMPUTE_32F_FAST_TF32,
                                  .workspace = workspace,
                                  .workspace_bytes = workspace_bytes,
                                  .bias = what.task.epilogue & CUBLASLT_EPILOGUE_BIAS ? what.task.bias : nullptr,
                                  .activation = activation});
}

}  // extern "C"
