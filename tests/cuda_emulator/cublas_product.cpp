#include "cuda_emulator/cublas_product.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "cuda_emulator/emulator.h"

namespace cuda_emulator {
namespace {

/// The operand of a TF32 product: rounded to 10 bits of fraction, ties away from zero as cvt.rna.tf32.f32 does.
float to_tf32(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  return std::isfinite(x) ? std::bit_cast<float>((bits + 0x1000u) & 0xFFFFE000u) : x;
}

template <class T, class Sum>
Sum load(const T* p, bool tf32) {
  if constexpr (std::is_same_v<T, float>)
    return tf32 ? to_tf32(*p) : *p;
  else
    return static_cast<Sum>(*p);
}

/// Sums are as good as any order of additions in the type of the sums could make them.
template <class T, class Value>
void run(const Product& p) {
  if (p.workspace) {  // what lies there is nobody else's
    const std::size_t edge = std::min<std::size_t>(p.workspace_bytes, 4096);
    std::memset(p.workspace, 0xA5, edge);
    std::memset(static_cast<char*>(p.workspace) + p.workspace_bytes - edge, 0xA5, edge);
  }
  for (int64_t batch = 0; batch < p.batch; ++batch) {
    const T* a = static_cast<const T*>(p.a.data) + batch * p.a.batch_stride;
    const T* b = static_cast<const T*>(p.b.data) + batch * p.b.batch_stride;
    T* c = static_cast<T*>(p.c) + batch * p.c_batch_stride;
    for (int64_t j = 0; j < p.n; ++j) {
      for (int64_t i = 0; i < p.m; ++i) {
        double sum = 0;
        for (int64_t l = 0; l < p.k; ++l) {
          sum += load<T, Value>(a + (p.a.transposed ? l + i * p.a.ld : i + l * p.a.ld), p.tf32) *
                 load<T, Value>(b + (p.b.transposed ? j + l * p.b.ld : l + j * p.b.ld), p.tf32);
        }
        T& out = c[i + j * p.ldc];
        double result = p.alpha * sum;
        if (p.beta != 0) result += p.beta * static_cast<double>(static_cast<Value>(out));  // 0: `out` is not read
        if (p.bias) result += static_cast<double>(static_cast<Value>(static_cast<const T*>(p.bias)[i]));
        out = static_cast<T>(static_cast<Value>(result));
      }
    }
  }
}

using Run = void (*)(const Product&);

Run run_of(cudaDataType type) {
  switch (type) {
    case CUDA_R_32F:
      return run<float, float>;
    case CUDA_R_64F:
      return run<double, double>;
    case CUDA_R_16F:
      return run<__half, float>;
    case CUDA_R_16BF:
      return run<__nv_bfloat16, float>;
    default:
      return nullptr;
  }
}

}  // namespace

cublasStatus_t multiply(cudaStream_t stream, cudaDataType type, const Product& product) {
  const Run work = run_of(type);
  if (!work) return CUBLAS_STATUS_NOT_SUPPORTED;
  return enqueue(stream, [product, work] { work(product); }) == cudaSuccess ? CUBLAS_STATUS_SUCCESS
                                                                            : CUBLAS_STATUS_EXECUTION_FAILED;
}

}  // namespace cuda_emulator
