#include "cuda_emulator/cublas_product.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <functional>
#include <vector>

#include "cuda_emulator/arithmetic.h"
#include "cuda_emulator/emulator.h"

namespace cuda_emulator {
namespace {

template <class T, class Sum>
Sum load(const T* p, bool tf32) {
  if constexpr (std::is_same_v<T, float>)
    return tf32 ? to_tf32(*p) : *p;
  else
    return static_cast<Sum>(*p);
}

/// As good as any order of additions in the type of the sums could make it.
template <class T, class Value>
double sum_of(const Product& p, int64_t batch, int64_t i, int64_t j) {
  const T* a = static_cast<const T*>(p.a.data) + batch * p.a.batch_stride;
  const T* b = static_cast<const T*>(p.b.data) + batch * p.b.batch_stride;
  double sum = 0;
  for (int64_t l = 0; l < p.k; ++l) {
    sum += load<T, Value>(a + (p.a.transposed ? l + i * p.a.ld : i + l * p.a.ld), p.tf32) *
           load<T, Value>(b + (p.b.transposed ? j + l * p.b.ld : l + j * p.b.ld), p.tf32);
  }
  return sum;
}

template <class T, class Value>
void finish(const Product& p, int64_t batch, int64_t i, int64_t j, double sum) {
  T& out = (static_cast<T*>(p.c) + batch * p.c_batch_stride)[i + j * p.ldc];
  double result = p.alpha * sum;
  if (p.beta != 0) result += p.beta * static_cast<double>(static_cast<Value>(out));  // 0: `out` is not read
  if (p.bias) result += static_cast<double>(static_cast<Value>(static_cast<const T*>(p.bias)[i]));
  if (p.activation) result = p.activation(result);
  out = static_cast<T>(static_cast<Value>(result));
}

template <class F>
void for_each(const Product& p, F f) {
  int64_t number = 0;
  for (int64_t batch = 0; batch < p.batch; ++batch) {
    for (int64_t j = 0; j < p.n; ++j) {
      for (int64_t i = 0; i < p.m; ++i) f(batch, i, j, number++);
    }
  }
}

/// Where there is room for the sums, in two kernels that meet in the workspace, as a product that is cut along k.
template <class T, class Value>
std::vector<std::function<void()>> kernels_of(const Product& p) {
  const auto sums_bytes = static_cast<std::size_t>(p.m * p.n * p.batch) * sizeof(double);
  if (!p.workspace || p.workspace_bytes < sums_bytes) {
    return {[p] {
      if (p.workspace) scribble(p.workspace, p.workspace_bytes);
      for_each(p, [&](int64_t batch, int64_t i, int64_t j, int64_t) {
        finish<T, Value>(p, batch, i, j, sum_of<T, Value>(p, batch, i, j));
      });
    }};
  }
  auto* const sums = static_cast<double*>(p.workspace);
  return {[p, sums] {
            scribble(p.workspace, p.workspace_bytes);
            for_each(p, [&](int64_t batch, int64_t i, int64_t j, int64_t number) {
              sums[number] = sum_of<T, Value>(p, batch, i, j);
            });
          },
          [p, sums] {
            for_each(p, [&](int64_t batch, int64_t i, int64_t j, int64_t number) {
              finish<T, Value>(p, batch, i, j, sums[number]);
            });
          }};
}

using Kernels = std::vector<std::function<void()>> (*)(const Product&);

Kernels kernels_for(cudaDataType type) {
  switch (type) {
    case CUDA_R_32F:
      return kernels_of<float, float>;
    case CUDA_R_64F:
      return kernels_of<double, double>;
    case CUDA_R_16F:
      return kernels_of<__half, float>;
    case CUDA_R_16BF:
      return kernels_of<__nv_bfloat16, float>;
    default:
      return nullptr;
  }
}

}  // namespace

cublasStatus_t multiply(cudaStream_t stream, cudaDataType type, const Product& product) {
  const Kernels kernels = kernels_for(type);
  if (!kernels) return CUBLAS_STATUS_NOT_SUPPORTED;
  return enqueue_all(stream, kernels(product)) == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

}  // namespace cuda_emulator
