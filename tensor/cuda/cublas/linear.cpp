#include <cublasLt.h>

#include <array>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "tendril/tensor/cuda/cublas/blas.h"
#include "tendril/tensor/cuda/cublas/gemm_layout.h"
#include "tendril/tensor/cuda/cuda.h"
#include "tendril/tensor/cuda/math_mode.h"
#include "tendril/tensor/cuda/runtime/current.h"
#include "tendril/tensor/cuda/runtime/lru.h"
#include "tendril/tensor/cuda/runtime/refusals.h"

/// A linear layer as one product of cuBLASLt's, which adds the bias to its sums, and takes ReLU or GELU by tanh of
/// them, before they are rounded. Its ReLU is max(x, 0), of which it does not say what becomes of NaN; nor does it say
/// how exact its GELU is: who asks for these has said that either will do (Kernels::linear).
namespace tendril::cuda {
namespace {

constexpr const char* kOp = "linear";
constexpr uint32_t kAlignment = 16;  // bytes; where an address is no multiple of it, the two steps are taken

/// False where cuBLASLt says NOT_SUPPORTED; see refusals.h for what else it may say.
bool is_served(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return true;
  if (status == CUBLAS_STATUS_NOT_SUPPORTED) return false;
  refused(
      kOp, call, static_cast<int>(status),
      std::string(kOp) + ": " + call + ": " + cublasGetStatusString(status) + " (" + cublasGetStatusName(status) + ")");
  return false;
}
#define TENDRIL_SERVED(function, ...) is_served(function(__VA_ARGS__), #function)

struct Call {
  GemmLayout g;
  BlasTypes types;
  cublasLtEpilogue_t epilogue;
  const void *first, *second, *bias;  // bias: null if there is none
  void* out;
};

/// What is done to the sums, if cuBLASLt has it.
std::optional<cublasLtEpilogue_t> epilogue_of(bool bias, const Unary* after) {
  if (!after) return bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
  if (*after == Unary::relu) return bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
  if (*after == Unary::gelu_tanh) return bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
  return std::nullopt;
}

/// What cuBLASLt is told of a call. On the stack: what `Init` makes holds nothing.
struct Description {
  cublasLtMatmulDescOpaque_t product{};
  cublasLtMatrixLayoutOpaque_t first{}, second{}, out{};

  bool init(const Call& c, const void* bias) {
    const auto operation = [](const GemmOperand& x) { return x.transposed ? CUBLAS_OP_T : CUBLAS_OP_N; };
    const cublasOperation_t op1 = operation(c.g.first), op2 = operation(c.g.second);
    const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const auto& value) {
      return TENDRIL_SERVED(cublasLtMatmulDescSetAttribute, &product, attribute, &value, sizeof value);
    };
    const auto layout = [&](cublasLtMatrixLayoutOpaque_t& l, bool transposed, int64_t rows, int64_t columns,
                            int64_t ld) {
      return TENDRIL_SERVED(cublasLtMatrixLayoutInit, &l, c.types.data,
                            static_cast<uint64_t>(transposed ? columns : rows),
                            static_cast<uint64_t>(transposed ? rows : columns), ld);
    };
    return TENDRIL_SERVED(cublasLtMatmulDescInit, &product, c.types.compute, c.types.scalars) &&
           set(CUBLASLT_MATMUL_DESC_TRANSA, op1) && set(CUBLASLT_MATMUL_DESC_TRANSB, op2) &&
           set(CUBLASLT_MATMUL_DESC_EPILOGUE, c.epilogue) && (!bias || set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias)) &&
           layout(first, c.g.first.transposed, c.g.m, c.g.k, c.g.first.ld) &&
           layout(second, c.g.second.transposed, c.g.k, c.g.n, c.g.second.ld) &&
           layout(out, false, c.g.m, c.g.n, c.g.out.ld);
  }
};

/// All that an algorithm depends on.
using Key = std::array<int64_t, 12>;
Key key_of(const Call& c) {
  const GemmLayout& g = c.g;
  return {current_device(),
          c.types.data,
          c.types.compute,
          c.epilogue,
          g.first.transposed,
          g.second.transposed,
          g.m,
          g.n,
          g.k,
          g.first.ld,
          g.second.ld,
          g.out.ld};
}

/// The fastest, by cuBLASLt's own estimate; none where it has none.
struct Algorithm {
  std::optional<cublasLtMatmulAlgo_t> found;
  bool may_be_kept = false;  ///< whether the next call would hear the same: not after a lack of memory
};

Algorithm find_algorithm(cublasLtHandle_t handle, const Call& c, std::size_t scratch_bytes) {
  Description d;
  cublasLtMatmulPreferenceOpaque_t preference{};
  // The heuristics take the alignment of a bias from its address, which they do not read: the least that may come.
  if (!d.init(c, c.bias ? reinterpret_cast<const void*>(std::uintptr_t{kAlignment}) : nullptr) ||
      !TENDRIL_SERVED(cublasLtMatmulPreferenceInit, &preference)) {
    return {};
  }
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    return TENDRIL_SERVED(cublasLtMatmulPreferenceSetAttribute, &preference, attribute, &value, sizeof value);
  };
  // A product that is cut along k must not add its parts up in a half type.
  const uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  cublasLtMatmulHeuristicResult_t result{};
  int count = 0;
  const bool asked = set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, scratch_bytes) &&
                     set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reductions) &&
                     set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, kAlignment) &&
                     set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, kAlignment) &&
                     set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, kAlignment) &&
                     set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, kAlignment);
  if (!asked) return {};
  cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(handle, &d.product, &d.first, &d.second, &d.out, &d.out,
                                                         &preference, 1, &result, &count);
  if (status == CUBLAS_STATUS_SUCCESS) status = count > 0 ? result.state : CUBLAS_STATUS_NOT_SUPPORTED;
  if (is_served(status, "cublasLtMatmulAlgoGetHeuristic")) return {result.algo, true};
  return {{}, status == CUBLAS_STATUS_NOT_SUPPORTED};
}

/// For all threads. Never destroyed: the library may be gone before static objects are.
struct Algorithms {
  std::mutex mutex;
  Lru<Key, Algorithm, WordsHash> cache{1024};
};

bool multiply_and_add(const Call& c) {
  static auto& algorithms = *new Algorithms;
  const BlasCall call;
  const auto handle = reinterpret_cast<cublasLtHandle_t>(call.handle());  // each is one, too
  Algorithm algorithm;
  {
    const Key key = key_of(c);
    const std::lock_guard lock(algorithms.mutex);
    algorithm = algorithms.cache.get(key, [&] { return find_algorithm(handle, c, call.scratch_bytes()); });
    if (!algorithm.may_be_kept) algorithms.cache.drop(key);
  }
  Description d;
  if (!algorithm.found || !d.init(c, c.bias)) return false;
  const double one64 = 1, zero64 = 0;
  const float one32 = 1, zero32 = 0;
  const bool wide = c.types.scalars == CUDA_R_64F;
  const void* const one = wide ? static_cast<const void*>(&one64) : &one32;
  const void* const zero = wide ? static_cast<const void*>(&zero64) : &zero32;
  return TENDRIL_SERVED(cublasLtMatmul, handle, &d.product, one, c.first, &d.first, c.second, &d.second, zero, c.out,
                        &d.out, c.out, &d.out, &*algorithm.found, call.scratch(), call.scratch_bytes(),
                        current_stream());
}

bool is_aligned(const void* data) { return reinterpret_cast<std::uintptr_t>(data) % kAlignment == 0; }

/// Rows of a result that lies in rows are columns to BLAS, which is where it adds a bias.
bool in_one_call(const View& out, const View& a, const View& b, const View* bias, const Unary* after) {
  const std::optional<cublasLtEpilogue_t> epilogue = epilogue_of(bias != nullptr, after);
  if (!epilogue || a.numel == 0 || b.numel == 0) return false;
  if (bias && bias->numel != 1 && bias->strides[0] != 1) return false;
  const Call c{gemm_layout(out, a, b),
               blas_types(out.dtype, matmul_tf32(), kOp),
               *epilogue,
               b.data,
               a.data,
               bias ? bias->data : nullptr,
               out.data};
  return c.g.swapped && !c.g.first.copied && !c.g.second.copied && !c.g.out.copied && is_aligned(a.data) &&
         is_aligned(b.data) && is_aligned(c.bias) && is_aligned(out.data) && multiply_and_add(c);
}

/// The product plus the bias, in one call or two; whether in one.
bool add_product(const View& out, const View& a, const View& b, const View* bias) {
  if (bias && in_one_call(out, a, b, bias, nullptr)) return true;
  multiply(kOp, out, a, b, matmul_tf32());
  if (!bias) return false;
  const int64_t strides[] = {0, bias->numel == 1 ? 0 : bias->strides[0]};
  const View each{bias->data, out.sizes, strides, out.numel, 2, bias->dtype, false};
  require(table.binary, "add", table)(Binary::add, out, out, each);
  return false;
}

}  // namespace

void linear(const View& out, const View& a, const View& b, const View* bias, const Unary* after) {
  blas_types(out.dtype, false, kOp);
  if (out.numel == 0) return;
  const bool activated = after && in_one_call(out, a, b, bias, after);
  const bool fused = activated || add_product(out, a, b, bias);
  if (after && !activated) require(table.unary, *after, table)(*after, out, out, 0);
  detail::count_linear(fused, activated);
}

}  // namespace tendril::cuda
