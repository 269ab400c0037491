// cuDNN's convolutions for the emulated device, as loops that run in stream order. Which algorithms there are, for
// what, and what they need is made up, so that callers meet every case: some that are not supported, one that is
// fastest but needs more memory than there is (kernels of 5 by 5), some that are not deterministic, and convolutions
// that none of them serves (bfloat16 with dilation, float64 in the order NHWC).
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "cuda_emulator/arithmetic.h"
#include "cuda_emulator/cudnn_descriptors.h"
#include "cuda_emulator/emulator.h"
#include "cuda_emulator/failures.h"

namespace cuda_emulator {
namespace {

std::atomic<int> last_algorithm{-1};
std::atomic<int> next_status{CUDNN_STATUS_SUCCESS};
std::atomic<const char*> next_message{""};

/// One convolution, all operands in the order NCHW or, `last`, NHWC.
struct Sizes {
  int n, c, h, w, k, r, s, p, q, groups;  // c: of x; k: of the result
  int padding[2], stride[2], dilation[2];
  bool last;
};

struct Request {
  Sizes sizes;
  cudnnDataType_t type;
  cudnnMathType_t math;
};

int places(int size, int kernel, int padding, int stride, int dilation) {
  return (size + 2 * padding - ((kernel - 1) * dilation + 1)) / stride + 1;
}

/// What all functions of a convolution demand of their descriptors.
cudnnStatus_t understand(cudnnHandle_t handle, cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t w,
                         cudnnConvolutionDescriptor_t conv, cudnnTensorDescriptor_t y, Request& request) {
  if (const cudnnStatus_t status = look_at(handle); status != CUDNN_STATUS_SUCCESS) return status;
  if (!x || !w || !conv || !y) return refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "a descriptor is null");
  if (x->dims != 4 || w->size[0] == 0 || y->dims != 4 || !conv->is_set) {
    return refuse(CUDNN_STATUS_BAD_PARAM, "expected four dimensions and a set convolution");
  }
  if (x->type != w->type || x->type != y->type) return refuse(CUDNN_STATUS_BAD_PARAM, "data types differ");
  if (conv->compute != (x->type == CUDNN_DATA_DOUBLE ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT)) {
    return refuse(CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE, "no kernel computes this type in that type");
  }
  if (x->type == CUDNN_DATA_INT32) return refuse(CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE, "integers");
  if (conv->mode != CUDNN_CROSS_CORRELATION) return refuse(CUDNN_STATUS_NOT_SUPPORTED, "flipped kernels");
  const bool last = w->format == CUDNN_TENSOR_NHWC;
  if (last ? !x->is_channels_last() || !y->is_channels_last() : !x->is_packed() || !y->is_packed()) {
    return refuse(CUDNN_STATUS_NOT_SUPPORTED_LAYOUT, "the emulator serves packed operands of one order only");
  }
  request = {{x->size[0],
              x->size[1],
              x->size[2],
              x->size[3],
              w->size[0],
              w->size[2],
              w->size[3],
              y->size[2],
              y->size[3],
              conv->groups,
              {conv->padding[0], conv->padding[1]},
              {conv->stride[0], conv->stride[1]},
              {conv->dilation[0], conv->dilation[1]},
              last},
             x->type,
             conv->math};
  const Sizes& s = request.sizes;
  const bool fit = s.c == w->size[1] * s.groups && s.k % s.groups == 0 && y->size[0] == s.n && y->size[1] == s.k &&
                   s.p == places(s.h, s.r, s.padding[0], s.stride[0], s.dilation[0]) &&
                   s.q == places(s.w, s.s, s.padding[1], s.stride[1], s.dilation[1]);
  return fit ? CUDNN_STATUS_SUCCESS : refuse(CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH, "sizes do not fit");
}

/// The x element, the weight element and the result's element of every product.
template <class F>
void for_each_product(const Sizes& z, F f) {
  const int in = z.c / z.groups, out = z.k / z.groups;
  const auto at = [&](int n, int c, int channels, int y, int height, int x, int width) {
    return z.last ? ((std::int64_t(n) * height + y) * width + x) * channels + c
                  : ((std::int64_t(n) * channels + c) * height + y) * width + x;
  };
  for (int n = 0; n < z.n; ++n) {
    for (int k = 0; k < z.k; ++k) {
      for (int i = 0; i < z.p; ++i) {
        for (int j = 0; j < z.q; ++j) {
          for (int c = 0; c < in; ++c) {
            for (int r = 0; r < z.r; ++r) {
              const int y = i * z.stride[0] + r * z.dilation[0] - z.padding[0];
              if (y < 0 || y >= z.h) continue;
              for (int s = 0; s < z.s; ++s) {
                const int x = j * z.stride[1] + s * z.dilation[1] - z.padding[1];
                if (x < 0 || x >= z.w) continue;
                f(at(n, k / out * in + c, z.c, y, z.h, x, z.w), at(k, c, in, r, z.r, s, z.s),
                  at(n, k, z.k, i, z.p, j, z.q));
              }
            }
          }
        }
      }
    }
  }
}

enum class Which { forward, data, filter };

/// Sums are as good as any order of float32 additions could make them. `turn` is 0 for an algorithm that is
/// deterministic; of others the last bits of results depend on it.
template <class T>
void compute(Which which, const Request& request, int turn, double alpha, double beta, const void* first,
             const void* second, void* result) {
  using Value = std::conditional_t<std::is_same_v<T, double>, double, float>;
  const Sizes& z = request.sizes;
  const bool tf32 = std::is_same_v<T, float> && request.math != CUDNN_FMA_MATH;
  const auto load = [tf32](const void* from, std::int64_t at) -> double {
    const T value = static_cast<const T*>(from)[at];
    if constexpr (std::is_same_v<T, float>)
      return tf32 ? to_tf32(value) : value;
    else
      return static_cast<Value>(value);
  };
  const std::int64_t counts[] = {std::int64_t(z.n) * z.k * z.p * z.q, std::int64_t(z.n) * z.c * z.h * z.w,
                                 std::int64_t(z.k) * (z.c / z.groups) * z.r * z.s};
  std::vector<double> sums(static_cast<std::size_t>(counts[static_cast<int>(which)]));
  const auto sum = [&](std::int64_t at) -> double& { return sums[static_cast<std::size_t>(at)]; };
  for_each_product(z, [&](std::int64_t x, std::int64_t w, std::int64_t y) {
    switch (which) {
      case Which::forward:
        sum(y) += load(first, x) * load(second, w);
        break;
      case Which::data:
        sum(x) += load(first, w) * load(second, y);
        break;
      case Which::filter:
        sum(w) += load(first, x) * load(second, y);
        break;
    }
  });
  T* out = static_cast<T*>(result);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    double value = alpha * sums[i];
    if (beta != 0) value += beta * static_cast<double>(static_cast<Value>(out[i]));  // 0: not read
    auto rounded = static_cast<Value>(value);
    if (turn > 0 && (i + static_cast<std::size_t>(turn)) % 3 == 0) rounded = std::nextafter(rounded, Value(0));
    out[i] = static_cast<T>(rounded);
  }
}

/// An algorithm as the emulator has it.
struct Algorithm {
  int name;
  bool supported, deterministic;
  std::size_t workspace;
};

/// Two ways, the faster one first: with a workspace or without, with the same bits each time or not.
std::vector<Algorithm> algorithms(Which which, const Request& request) {
  const Sizes& z = request.sizes;
  const bool served = !(request.type == CUDNN_DATA_BFLOAT16 && (z.dilation[0] > 1 || z.dilation[1] > 1)) &&
                      !(request.type == CUDNN_DATA_DOUBLE && z.last);
  const std::size_t columns = static_cast<std::size_t>(z.c) * static_cast<std::size_t>(z.r * z.s) * 64;
  switch (which) {
    case Which::forward:
      return {{CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, served, true, columns},
              {CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, served, true, 0}};
    case Which::data:
      return {{CUDNN_CONVOLUTION_BWD_DATA_ALGO_0, served, false, 0},
              {CUDNN_CONVOLUTION_BWD_DATA_ALGO_1, served, true, columns}};
    default:
      return {{CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0, served, false, 0},
              {CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1, served, true, columns}};
  }
}

template <class Result>
cudnnStatus_t rank(Which which, const Request& request, int asked, int* returned, Result* results) {
  if (asked < 1 || !returned || !results) return refuse(CUDNN_STATUS_BAD_PARAM, "no room for results");
  if (const int status = planned_failure(Planning::convolution); status != 0) {
    return refuse(static_cast<cudnnStatus_t>(status), "no ranking today");
  }
  const std::vector<Algorithm> all = algorithms(which, request);
  *returned = std::min(asked, static_cast<int>(all.size()));
  for (int i = 0; i < *returned; ++i) {
    const Algorithm& one = all[static_cast<std::size_t>(i)];
    results[i] = {};
    results[i].algo = static_cast<decltype(results[i].algo)>(one.name);
    results[i].status = one.supported ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_NOT_SUPPORTED;
    results[i].time = one.supported ? static_cast<float>(i + 1) : -1;
    results[i].memory = one.workspace;
    results[i].determinism = one.deterministic ? CUDNN_DETERMINISTIC : CUDNN_NON_DETERMINISTIC;
    results[i].mathType =
        request.type == CUDNN_DATA_DOUBLE || request.math == CUDNN_FMA_MATH ? CUDNN_FMA_MATH : CUDNN_TENSOR_OP_MATH;
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t look_up(Which which, const Request& request, int name, Algorithm* found) {
  for (const Algorithm& one : algorithms(which, request)) {
    if (one.name != name || !one.supported) continue;
    *found = one;
    return CUDNN_STATUS_SUCCESS;
  }
  return refuse(CUDNN_STATUS_NOT_SUPPORTED, "not with this algorithm");
}

cudnnStatus_t need_of(Which which, const Request& request, int name, std::size_t* bytes) {
  if (const int status = planned_failure(Planning::convolution_workspace); status != 0) {
    return refuse(static_cast<cudnnStatus_t>(status), "no size today");
  }
  Algorithm found{};
  const cudnnStatus_t status = look_up(which, request, name, &found);
  if (status == CUDNN_STATUS_SUCCESS) *bytes = found.workspace;
  return status;
}

cudnnStatus_t run(cudnnHandle_t handle, Which which, const Request& request, int name, void* workspace,
                  std::size_t room, const void* alpha, const void* beta, const void* first, const void* second,
                  void* result) {
  if (!alpha || !beta || !first || !second || !result) return refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "null");
  // Its kernels move 16 bytes at a time; what it does with other addresses is nowhere promised.
  for (const void* operand : {first, second, static_cast<const void*>(result)}) {
    if (reinterpret_cast<std::uintptr_t>(operand) % 16 != 0) {
      return refuse(CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER, "an operand is not 16-byte aligned");
    }
  }
  if (const int status = next_status.exchange(CUDNN_STATUS_SUCCESS); status != CUDNN_STATUS_SUCCESS) {
    return refuse(static_cast<cudnnStatus_t>(status), next_message);
  }
  Algorithm algorithm{};
  if (const cudnnStatus_t status = look_up(which, request, name, &algorithm); status != CUDNN_STATUS_SUCCESS) {
    return status;
  }
  last_algorithm = name;
  const std::size_t need = algorithm.workspace;
  if (room < need || (need > 0 && !workspace)) {
    return refuse(CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT, "the workspace is too small");
  }
  void (*work)(Which, const Request&, int, double, double, const void*, const void*, void*) = nullptr;
  switch (request.type) {
    case CUDNN_DATA_FLOAT:
      work = compute<float>;
      break;
    case CUDNN_DATA_DOUBLE:
      work = compute<double>;
      break;
    case CUDNN_DATA_HALF:
      work = compute<__half>;
      break;
    default:
      work = compute<__nv_bfloat16>;
      break;
  }
  const double scale = scalar_of(alpha, request.type), keep = scalar_of(beta, request.type);
  static std::atomic<int> turns{0};
  const int turn = algorithm.deterministic ? 0 : 1 + (turns.fetch_add(1) & 0xFFFF);
  const cudaError_t status = enqueue(handle->stream, [=] {
    scribble(workspace, need);
    work(which, request, turn, scale, keep, first, second, result);
  });
  return status == cudaSuccess ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_EXECUTION_FAILED;
}

}  // namespace

void fail_next_convolution(int status, const char* message) {
  next_message = message;
  next_status = status;
}

int last_convolution_algorithm() { return last_algorithm; }

}  // namespace cuda_emulator

using namespace cuda_emulator;

extern "C" {

cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t* conv) {
  *conv = new cudnnConvolutionStruct;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t conv) {
  delete conv;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t conv, int padding_h, int padding_w,
                                              int stride_h, int stride_w, int dilation_h, int dilation_w,
                                              cudnnConvolutionMode_t mode, cudnnDataType_t compute) {
  if (!conv) return refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "null");
  if (padding_h < 0 || padding_w < 0 || stride_h <= 0 || stride_w <= 0 || dilation_h <= 0 || dilation_w <= 0) {
    return refuse(CUDNN_STATUS_BAD_PARAM, "padding, stride or dilation is out of range");
  }
  conv->is_set = true;
  conv->padding[0] = padding_h, conv->padding[1] = padding_w;
  conv->stride[0] = stride_h, conv->stride[1] = stride_w;
  conv->dilation[0] = dilation_h, conv->dilation[1] = dilation_w;
  conv->mode = mode;
  conv->compute = compute;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t conv, int groups) {
  if (!conv || groups < 1) return refuse(CUDNN_STATUS_BAD_PARAM, "the number of groups is not positive");
  conv->groups = groups;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t conv, cudnnMathType_t math) {
  if (!conv || math < CUDNN_DEFAULT_MATH || math > CUDNN_FMA_MATH) {
    return refuse(CUDNN_STATUS_BAD_PARAM, "the math type is invalid");
  }
  conv->math = math;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(cudnnHandle_t handle, cudnnTensorDescriptor_t x,
                                                     cudnnFilterDescriptor_t w, cudnnConvolutionDescriptor_t conv,
                                                     cudnnTensorDescriptor_t y, int asked, int* returned,
                                                     cudnnConvolutionFwdAlgoPerf_t* results) {
  Request request;
  const cudnnStatus_t status = understand(handle, x, w, conv, y, request);
  return status == CUDNN_STATUS_SUCCESS ? rank(Which::forward, request, asked, returned, results) : status;
}
cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(cudnnHandle_t handle, cudnnTensorDescriptor_t x,
                                                      cudnnFilterDescriptor_t w, cudnnConvolutionDescriptor_t conv,
                                                      cudnnTensorDescriptor_t y, cudnnConvolutionFwdAlgo_t algorithm,
                                                      std::size_t* bytes) {
  Request request;
  const cudnnStatus_t status = understand(handle, x, w, conv, y, request);
  return status == CUDNN_STATUS_SUCCESS ? need_of(Which::forward, request, algorithm, bytes) : status;
}
cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void* alpha, cudnnTensorDescriptor_t x_desc,
                                      const void* x, cudnnFilterDescriptor_t w_desc, const void* w,
                                      cudnnConvolutionDescriptor_t conv, cudnnConvolutionFwdAlgo_t algorithm,
                                      void* workspace, std::size_t bytes, const void* beta,
                                      cudnnTensorDescriptor_t y_desc, void* y) {
  Request request;
  const cudnnStatus_t status = understand(handle, x_desc, w_desc, conv, y_desc, request);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  return run(handle, Which::forward, request, algorithm, workspace, bytes, alpha, beta, x, w, y);
}

cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(cudnnHandle_t handle, cudnnFilterDescriptor_t w,
                                                          cudnnTensorDescriptor_t dy, cudnnConvolutionDescriptor_t conv,
                                                          cudnnTensorDescriptor_t dx, int asked, int* returned,
                                                          cudnnConvolutionBwdDataAlgoPerf_t* results) {
  Request request;
  const cudnnStatus_t status = understand(handle, dx, w, conv, dy, request);
  return status == CUDNN_STATUS_SUCCESS ? rank(Which::data, request, asked, returned, results) : status;
}
cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(
    cudnnHandle_t handle, cudnnFilterDescriptor_t w, cudnnTensorDescriptor_t dy, cudnnConvolutionDescriptor_t conv,
    cudnnTensorDescriptor_t dx, cudnnConvolutionBwdDataAlgo_t algorithm, std::size_t* bytes) {
  Request request;
  const cudnnStatus_t status = understand(handle, dx, w, conv, dy, request);
  return status == CUDNN_STATUS_SUCCESS ? need_of(Which::data, request, algorithm, bytes) : status;
}
cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t handle, const void* alpha, cudnnFilterDescriptor_t w_desc,
                                           const void* w, cudnnTensorDescriptor_t dy_desc, const void* dy,
                                           cudnnConvolutionDescriptor_t conv, cudnnConvolutionBwdDataAlgo_t algorithm,
                                           void* workspace, std::size_t bytes, const void* beta,
                                           cudnnTensorDescriptor_t dx_desc, void* dx) {
  Request request;
  const cudnnStatus_t status = understand(handle, dx_desc, w_desc, conv, dy_desc, request);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  return run(handle, Which::data, request, algorithm, workspace, bytes, alpha, beta, w, dy, dx);
}

cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(cudnnHandle_t handle, cudnnTensorDescriptor_t x,
                                                            cudnnTensorDescriptor_t dy,
                                                            cudnnConvolutionDescriptor_t conv,
                                                            cudnnFilterDescriptor_t dw, int asked, int* returned,
                                                            cudnnConvolutionBwdFilterAlgoPerf_t* results) {
  Request request;
  const cudnnStatus_t status = understand(handle, x, dw, conv, dy, request);
  return status == CUDNN_STATUS_SUCCESS ? rank(Which::filter, request, asked, returned, results) : status;
}
cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(
    cudnnHandle_t handle, cudnnTensorDescriptor_t x, cudnnTensorDescriptor_t dy, cudnnConvolutionDescriptor_t conv,
    cudnnFilterDescriptor_t dw, cudnnConvolutionBwdFilterAlgo_t algorithm, std::size_t* bytes) {
  Request request;
  const cudnnStatus_t status = understand(handle, x, dw, conv, dy, request);
  return status == CUDNN_STATUS_SUCCESS ? need_of(Which::filter, request, algorithm, bytes) : status;
}
cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t handle, const void* alpha, cudnnTensorDescriptor_t x_desc,
                                             const void* x, cudnnTensorDescriptor_t dy_desc, const void* dy,
                                             cudnnConvolutionDescriptor_t conv,
                                             cudnnConvolutionBwdFilterAlgo_t algorithm, void* workspace,
                                             std::size_t bytes, const void* beta, cudnnFilterDescriptor_t dw_desc,
                                             void* dw) {
  Request request;
  const cudnnStatus_t status = understand(handle, x_desc, dw_desc, conv, dy_desc, request);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  return run(handle, Which::filter, request, algorithm, workspace, bytes, alpha, beta, x, dy, dw);
}

}  // extern "C"
