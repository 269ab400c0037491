#include "tendril/tensor/cuda/cublas/blas.h"

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "tendril/tensor/cuda/cublas/gemm_layout.h"
#include "tendril/tensor/cuda/cuda.h"
#include "tendril/tensor/cuda/math_mode.h"
#include "tendril/tensor/cuda/runtime/check.h"
#include "tendril/tensor/cuda/runtime/current.h"
#include "tendril/tensor/cuda/runtime/handles.h"
#include "tendril/tensor/cuda/runtime/workspace.h"

namespace tendril::cuda {

void raise(cublasStatus_t status, const char* op, const char* call) {
  tendril::detail::raise<Error>(op, ": ", call, ": ", cublasGetStatusString(status), " (", cublasGetStatusName(status),
                                ")");
}

Blas::Blas() {
  constexpr std::size_t kMiB = 1 << 20;
  constexpr int kHopper = 9;
  int major = 0;
  TENDRIL_CUDA("cuBLAS", cudaDeviceGetAttribute, &major, cudaDevAttrComputeCapabilityMajor, current_device());
  scratch_bytes_ = (major >= kHopper ? 32 : 4) * kMiB;  // what cuBLAS's manual recommends (cublasSetWorkspace)
  TENDRIL_CUBLAS("cuBLAS", cublasCreate, &handle_);
  // A product that is cut along k must not add its parts up in a half type.
  const auto mode = static_cast<cublasMath_t>(CUBLAS_DEFAULT_MATH | CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION);
  if (const cublasStatus_t status = cublasSetMathMode(handle_, mode); status != CUBLAS_STATUS_SUCCESS) {
    cublasDestroy(handle_);
    raise(status, "cuBLAS", "cublasSetMathMode");
  }
}

Blas::~Blas() { cublasDestroy(handle_); }

namespace {

struct OfStream {
  explicit OfStream(std::size_t bytes) : scratch(bytes) {}

  std::mutex issuing;  ///< held from a call's first kernel to its last
  Workspace scratch;
};

/// The current stream's. Kept, as streams are; never destroyed: the driver may be gone before static objects are.
OfStream& of_stream(std::size_t scratch_bytes) {
  using ByStream = std::map<std::pair<int, cudaStream_t>, std::unique_ptr<OfStream>>;
  static auto& mutex = *new std::mutex;
  static auto& all = *new ByStream;
  const std::lock_guard lock(mutex);
  auto& mine = all[{current_device(), current_stream()}];
  if (!mine) mine = std::make_unique<OfStream>(scratch_bytes);
  return *mine;
}

}  // namespace

BlasCall::BlasCall() {
  const Blas& blas = thread_handle<Blas>();
  handle_ = blas.get();
  scratch_bytes_ = blas.scratch_bytes();
  OfStream& mine = of_stream(scratch_bytes_);
  scratch_ = mine.scratch.data();
  alone_ = std::unique_lock(mine.issuing);
  TENDRIL_CUBLAS("cuBLAS", cublasSetStream, handle_, current_stream());  // forgets the workspace, so that comes second
  TENDRIL_CUBLAS("cuBLAS", cublasSetWorkspace, handle_, scratch_, scratch_bytes_);
}

BlasTypes blas_types(DType dtype, bool tf32, const char* op) {
  switch (dtype) {
    case kFloat32:
      return {CUDA_R_32F, CUDA_R_32F, tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F};
    case kFloat64:
      return {CUDA_R_64F, CUDA_R_64F, CUBLAS_COMPUTE_64F};
    case kFloat16:
      return {CUDA_R_16F, CUDA_R_32F, CUBLAS_COMPUTE_32F};
    case kBFloat16:
      return {CUDA_R_16BF, CUDA_R_32F, CUBLAS_COMPUTE_32F};
    default:
      tendril::detail::raise<DTypeError>(op, ": no cuda kernel for ", dtype);
  }
}

namespace {

/// A row-major copy of a view, of one matrix where its batch stride is 0.
class Packed {
 public:
  explicit Packed(const View& x) : sizes_{1, x.sizes[x.ndim - 2], x.sizes[x.ndim - 1]} {
    if (x.ndim == 3 && x.strides[0] != 0) sizes_[0] = x.sizes[0];
    for (int i = 0; i < x.ndim; ++i) original_strides_[3 - x.ndim + i] = x.strides[i];
    const int64_t numel = sizes_[0] * sizes_[1] * sizes_[2];
    memory_.emplace(static_cast<std::size_t>(numel) * size_of(x.dtype));
    view_ = {memory_->data(), sizes_, strides_, numel, 3, x.dtype, true};
    original_ = {x.data, sizes_, original_strides_, numel, 3, x.dtype, false};
    strides_[0] = sizes_[1] * sizes_[2];
    strides_[1] = sizes_[2];
  }
  Packed(const Packed&) = delete;
  Packed& operator=(const Packed&) = delete;

  void fetch() const { require(table.copy, "copy", table)(view_, original_); }
  void put_back() const { require(table.copy, "copy", table)(original_, view_); }
  void* data() const { return view_.data; }

 private:
  int64_t sizes_[3], strides_[3] = {0, 0, 1}, original_strides_[3] = {0, 0, 0};
  std::optional<Workspace> memory_;
  View view_, original_;
};

void gemm(const char* op, const GemmLayout& g, DType dtype, const void* first, const void* second, void* out, bool tf32,
          bool accumulate) {
  const BlasTypes types = blas_types(dtype, tf32, op);
  // Scalars have the type of the sums.
  const double one64 = 1, beta64 = accumulate;
  const float one32 = 1, beta32 = accumulate;
  const bool wide = types.compute == CUBLAS_COMPUTE_64F;
  const void* alpha = wide ? static_cast<const void*>(&one64) : &one32;
  const void* beta = wide ? static_cast<const void*>(&beta64) : &beta32;
  const auto transposition = [](const GemmOperand& x) { return x.transposed ? CUBLAS_OP_T : CUBLAS_OP_N; };
  const cublasOperation_t op1 = transposition(g.first), op2 = transposition(g.second);
  const BlasCall call;
  const cublasHandle_t handle = call.handle();

  if (g.is_small()) {
    const auto m = static_cast<int>(g.m), n = static_cast<int>(g.n), k = static_cast<int>(g.k),
               ld1 = static_cast<int>(g.first.ld), ld2 = static_cast<int>(g.second.ld),
               ld_out = static_cast<int>(g.out.ld);
    if (g.batch == 1) {
      TENDRIL_CUBLAS(op, cublasGemmEx, handle, op1, op2, m, n, k, alpha, first, types.data, ld1, second, types.data,
                     ld2, beta, out, types.data, ld_out, types.compute, CUBLAS_GEMM_DEFAULT);
    } else {
      TENDRIL_CUBLAS(op, cublasGemmStridedBatchedEx, handle, op1, op2, m, n, k, alpha, first, types.data, ld1,
                     g.first.batch_stride, second, types.data, ld2, g.second.batch_stride, beta, out, types.data,
                     ld_out, g.out.batch_stride, static_cast<int>(g.batch), types.compute, CUBLAS_GEMM_DEFAULT);
    }
  } else if (g.batch == 1) {
    TENDRIL_CUBLAS(op, cublasGemmEx_64, handle, op1, op2, g.m, g.n, g.k, alpha, first, types.data, g.first.ld, second,
                   types.data, g.second.ld, beta, out, types.data, g.out.ld, types.compute, CUBLAS_GEMM_DEFAULT);
  } else {
    TENDRIL_CUBLAS(op, cublasGemmStridedBatchedEx_64, handle, op1, op2, g.m, g.n, g.k, alpha, first, types.data,
                   g.first.ld, g.first.batch_stride, second, types.data, g.second.ld, g.second.batch_stride, beta, out,
                   types.data, g.out.ld, g.out.batch_stride, g.batch, types.compute, CUBLAS_GEMM_DEFAULT);
  }
}

}  // namespace

void multiply(const char* op, const View& out, const View& a, const View& b, bool tf32, bool accumulate) {
  blas_types(out.dtype, tf32, op);
  if (out.numel == 0) return;
  if (a.numel == 0) {  // sums of nothing
    if (!accumulate) require(table.fill, "fill", table)(out, Scalar(0));
    return;
  }
  const GemmLayout g = gemm_layout(out, a, b);
  std::optional<Packed> packed_a, packed_b, packed_out;
  const auto data_of = [&](const View& x, bool copied, std::optional<Packed>& packed) {
    if (!copied) return x.data;
    packed.emplace(x).fetch();
    return packed->data();
  };
  const void* x = data_of(a, g.swapped ? g.second.copied : g.first.copied, packed_a);
  const void* y = data_of(b, g.swapped ? g.first.copied : g.second.copied, packed_b);
  void* z = out.data;
  if (g.out.copied) {
    z = packed_out.emplace(out).data();
    if (accumulate) packed_out->fetch();
  }
  gemm(op, g, out.dtype, g.swapped ? y : x, g.swapped ? x : y, z, tf32, accumulate);
  if (g.out.copied) packed_out->put_back();
}

}  // namespace tendril::cuda
