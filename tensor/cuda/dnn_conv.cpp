#include <algorithm>
#include <array>
#include <climits>
#include <cstdint>
#include <optional>
#include <vector>

#include "tendril/tensor/cuda/conv.h"
#include "tendril/tensor/cuda/dnn.h"
#include "tendril/tensor/cuda/handles.h"
#include "tendril/tensor/cuda/lru.h"
#include "tendril/tensor/cuda/math_mode.h"
#include "tendril/tensor/cuda/runtime.h"
#include "tendril/tensor/cuda/workspace.h"

/// Descriptors and algorithms are found once for each kind of convolution and kept; algorithms are chosen by cuDNN's
/// heuristics, not by timing, so that a program does the same whenever it runs.
namespace tendril::cuda {
namespace {

struct Descriptors {
  TensorDescriptor x, out;
  FilterDescriptor weight;
  ConvolutionDescriptor conv;
};

/// What cuDNN has for each map: its functions differ in names, types and order only.
struct Forward {
  using Algorithm = cudnnConvolutionFwdAlgo_t;
  using Result = cudnnConvolutionFwdAlgoPerf_t;
  static constexpr int kAlgorithms = CUDNN_CONVOLUTION_FWD_ALGO_COUNT;

  static cudnnStatus_t rank(cudnnHandle_t handle, const Descriptors& d, int* count, Result* results) {
    return cudnnGetConvolutionForwardAlgorithm_v7(handle, d.x, d.weight, d.conv, d.out, kAlgorithms, count, results);
  }
  static cudnnStatus_t scratch(cudnnHandle_t handle, const Descriptors& d, Algorithm algorithm, std::size_t* bytes) {
    return cudnnGetConvolutionForwardWorkspaceSize(handle, d.x, d.weight, d.conv, d.out, algorithm, bytes);
  }
  static cudnnStatus_t run(cudnnHandle_t handle, const Descriptors& d, const Conv& c, Algorithm algorithm,
                           void* scratch, std::size_t bytes, const void* one, const void* zero) {
    return cudnnConvolutionForward(handle, one, d.x, c.x.data, d.weight, c.weight.data, d.conv, algorithm, scratch,
                                   bytes, zero, d.out, c.out.data);
  }
};

struct Data {
  using Algorithm = cudnnConvolutionBwdDataAlgo_t;
  using Result = cudnnConvolutionBwdDataAlgoPerf_t;
  static constexpr int kAlgorithms = CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT;

  static cudnnStatus_t rank(cudnnHandle_t handle, const Descriptors& d, int* count, Result* results) {
    return cudnnGetConvolutionBackwardDataAlgorithm_v7(handle, d.weight, d.out, d.conv, d.x, kAlgorithms, count,
                                                       results);
  }
  static cudnnStatus_t scratch(cudnnHandle_t handle, const Descriptors& d, Algorithm algorithm, std::size_t* bytes) {
    return cudnnGetConvolutionBackwardDataWorkspaceSize(handle, d.weight, d.out, d.conv, d.x, algorithm, bytes);
  }
  static cudnnStatus_t run(cudnnHandle_t handle, const Descriptors& d, const Conv& c, Algorithm algorithm,
                           void* scratch, std::size_t bytes, const void* one, const void* zero) {
    return cudnnConvolutionBackwardData(handle, one, d.weight, c.weight.data, d.out, c.out.data, d.conv, algorithm,
                                        scratch, bytes, zero, d.x, c.x.data);
  }
};

struct Filter {
  using Algorithm = cudnnConvolutionBwdFilterAlgo_t;
  using Result = cudnnConvolutionBwdFilterAlgoPerf_t;
  static constexpr int kAlgorithms = CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT;

  static cudnnStatus_t rank(cudnnHandle_t handle, const Descriptors& d, int* count, Result* results) {
    return cudnnGetConvolutionBackwardFilterAlgorithm_v7(handle, d.x, d.out, d.conv, d.weight, kAlgorithms, count,
                                                         results);
  }
  static cudnnStatus_t scratch(cudnnHandle_t handle, const Descriptors& d, Algorithm algorithm, std::size_t* bytes) {
    return cudnnGetConvolutionBackwardFilterWorkspaceSize(handle, d.x, d.out, d.conv, d.weight, algorithm, bytes);
  }
  static cudnnStatus_t run(cudnnHandle_t handle, const Descriptors& d, const Conv& c, Algorithm algorithm,
                           void* scratch, std::size_t bytes, const void* one, const void* zero) {
    return cudnnConvolutionBackwardFilter(handle, one, d.x, c.x.data, d.out, c.out.data, d.conv, algorithm, scratch,
                                          bytes, zero, d.weight, c.weight.data);
  }
};

template <class F>
bool by_map(ConvMap map, F f) {
  switch (map) {
    case ConvMap::out:
      return f(Forward{});
    case ConvMap::data:
      return f(Data{});
    default:
      return f(Filter{});
  }
}

/// All that a plan depends on, but for the device, whose plans are apart. In the order of `key_of`.
using Key = std::array<int64_t, 21>;

struct KeyHash {
  std::size_t operator()(const Key& key) const noexcept {  // FNV-1a, by words
    uint64_t hash = 14695981039346656037u;
    for (const int64_t word : key) hash = (hash ^ static_cast<uint64_t>(word)) * 1099511628211u;
    return static_cast<std::size_t>(hash ^ (hash >> 32));
  }
};

Key key_of(const Conv& c, bool tf32) {
  const auto s = [](const View& v, int d) { return v.sizes[d]; };
  const ConvGeometry& g = c.geometry;
  return {static_cast<int64_t>(c.map),
          static_cast<int64_t>(c.x.dtype),
          tf32,
          deterministic(),
          s(c.x, 0),
          s(c.x, 1),
          s(c.x, 2),
          s(c.x, 3),
          s(c.weight, 0),
          s(c.weight, 1),
          s(c.weight, 2),
          s(c.weight, 3),
          s(c.out, 2),
          s(c.out, 3),
          g.stride.h,
          g.stride.w,
          g.padding.h,
          g.padding.w,
          g.dilation.h,
          g.dilation.w,
          g.groups};
}

struct Way {
  int algorithm;
  cudnnMathType_t math;
  std::size_t scratch;
};

/// The ways to compute one kind of convolution, the fastest first, by cuDNN's own estimate. None: cuDNN refuses it.
struct Plan {
  Descriptors d;
  std::vector<Way> ways;
};

/// cuDNN counts in int, and elements of a tensor to 2^31 (cudnnSetTensor4dDescriptor).
bool can_be_said(const Conv& c) {
  const auto fits = [](const View& v) {
    return v.numel <= INT_MAX && std::all_of(v.sizes, v.sizes + 4, [](int64_t size) { return size <= INT_MAX; });
  };
  const ConvGeometry& g = c.geometry;
  return fits(c.x) && fits(c.weight) && fits(c.out) &&
         std::max({g.stride.h, g.stride.w, g.padding.h, g.padding.w, g.dilation.h, g.dilation.w, g.groups}) <= INT_MAX;
}

/// False for a refusal; throws Error for what went wrong.
bool is_accepted(cudnnStatus_t status, const char* op, const char* call) {
  if (is_refusal(status)) return false;
  check(status, op, call);
  return true;
}

/// Without tensor cores, whose float32 is TF32.
bool is_exact(const Conv& c, bool tf32) { return c.x.dtype == kFloat32 && !tf32; }
/// What cuDNN may recommend algorithms for. Its default is tensor cores for float32 (Ampere and later) only.
cudnnMathType_t arithmetic_of(const Conv& c, bool tf32) {
  if (is_exact(c, tf32)) return CUDNN_FMA_MATH;
  return size_of(c.x.dtype) == 2 ? CUDNN_TENSOR_OP_MATH : CUDNN_DEFAULT_MATH;
}

bool describe(const Conv& c, bool tf32, const Descriptors& d) {
  const char* op = name_of(c.map);
  const cudnnDataType_t type = dnn_type(c.x.dtype, op);
  const auto size = [](const View& v, int i) { return static_cast<int>(v.sizes[i]); };
  const auto number = [](int64_t n) { return static_cast<int>(n); };
  const ConvGeometry& g = c.geometry;
  const auto accepts = [op](cudnnStatus_t status) { return is_accepted(status, op, "describing a convolution"); };
  const cudnnDataType_t sums = c.x.dtype == kFloat64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
  return accepts(cudnnSetTensor4dDescriptor(d.x, CUDNN_TENSOR_NCHW, type, size(c.x, 0), size(c.x, 1), size(c.x, 2),
                                            size(c.x, 3))) &&
         accepts(cudnnSetTensor4dDescriptor(d.out, CUDNN_TENSOR_NCHW, type, size(c.out, 0), size(c.out, 1),
                                            size(c.out, 2), size(c.out, 3))) &&
         accepts(cudnnSetFilter4dDescriptor(d.weight, type, CUDNN_TENSOR_NCHW, size(c.weight, 0), size(c.weight, 1),
                                            size(c.weight, 2), size(c.weight, 3))) &&
         accepts(cudnnSetConvolution2dDescriptor(d.conv, number(g.padding.h), number(g.padding.w), number(g.stride.h),
                                                 number(g.stride.w), number(g.dilation.h), number(g.dilation.w),
                                                 CUDNN_CROSS_CORRELATION, sums)) &&
         accepts(cudnnSetConvolutionGroupCount(d.conv, number(g.groups))) &&
         accepts(cudnnSetConvolutionMathType(d.conv, arithmetic_of(c, tf32)));
}

template <class Map>
void find_ways(cudnnHandle_t handle, const Conv& c, bool tf32, Plan& plan) {
  const char* op = name_of(c.map);
  typename Map::Result results[Map::kAlgorithms];
  int count = 0;
  if (!is_accepted(Map::rank(handle, plan.d, &count, results), op, "cudnnGetConvolutionAlgorithm_v7")) return;
  const bool exact = is_exact(c, tf32);
  for (int i = 0; i < count; ++i) {
    if (results[i].status != CUDNN_STATUS_SUCCESS) continue;
    if (deterministic() && results[i].determinism != CUDNN_DETERMINISTIC) continue;
    Way way{results[i].algo, exact ? CUDNN_FMA_MATH : results[i].mathType, 0};
    // An algorithm's needs depend on the arithmetic that it was recommended with.
    TENDRIL_CUDNN(op, cudnnSetConvolutionMathType, plan.d.conv, way.math);
    if (Map::scratch(handle, plan.d, results[i].algo, &way.scratch) == CUDNN_STATUS_SUCCESS) plan.ways.push_back(way);
  }
}

Plan make_plan(cudnnHandle_t handle, const Conv& c, bool tf32) {
  Plan plan;
  by_map(c.map, [&](auto map) {
    if (describe(c, tf32, plan.d)) find_ways<decltype(map)>(handle, c, tf32, plan);
    return true;
  });
  return plan;
}

/// Of one thread and device.
struct Plans {
  Lru<Key, Plan, KeyHash> cache{512};
};

/// False where the way is closed: no memory, or cuDNN has changed its mind.
template <class Map>
bool take(const Way& way, cudnnHandle_t handle, const Conv& c, const Plan& plan) {
  const char* op = name_of(c.map);
  const DnnScalar one(1, c.x.dtype), zero(0, c.x.dtype);
  std::optional<Workspace> scratch;
  try {
    scratch.emplace(way.scratch);
  } catch (const Error&) {
    return false;
  }
  TENDRIL_CUDNN(op, cudnnSetConvolutionMathType, plan.d.conv, way.math);
  return is_accepted(Map::run(handle, plan.d, c, static_cast<typename Map::Algorithm>(way.algorithm), scratch->data(),
                              way.scratch, one, zero),
                     op, "cudnnConvolution");
}

}  // namespace

bool convolve_by_cudnn(const Conv& conv) {
  if (!can_be_said(conv)) return false;
  const bool tf32 = convolution_tf32();
  const cudnnHandle_t handle = dnn_handle();
  Plan& plan = thread_handle<Plans>().cache.get(key_of(conv, tf32), [&] { return make_plan(handle, conv, tf32); });
  return by_map(conv.map, [&](auto map) {
    while (!plan.ways.empty()) {
      if (take<decltype(map)>(plan.ways.front(), handle, conv, plan)) return true;
      // Kept, it would be tried, and memory given back to the driver for it, again and again.
      plan.ways.erase(plan.ways.begin());
    }
    return false;
  });
}

}  // namespace tendril::cuda
