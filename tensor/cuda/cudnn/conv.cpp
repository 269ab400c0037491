#include <algorithm>
#include <climits>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "tendril/tensor/cuda/cudnn/conv_key.h"
#include "tendril/tensor/cuda/cudnn/dnn.h"
#include "tendril/tensor/cuda/kernels/conv.h"
#include "tendril/tensor/cuda/math_mode.h"
#include "tendril/tensor/cuda/runtime.h"
#include "tendril/tensor/cuda/runtime/aligned.h"
#include "tendril/tensor/cuda/runtime/current.h"
#include "tendril/tensor/cuda/runtime/lru.h"
#include "tendril/tensor/cuda/runtime/workspace.h"

/// Descriptors and algorithms are found once for each kind of convolution and device and kept for all threads, which
/// only read them; algorithms are chosen by cuDNN's heuristics, not by timing, so that a program does the same whenever
/// it runs.
namespace tendril::cuda {
namespace {

struct Operands {
  TensorDescriptor x, out;
  FilterDescriptor weight;
};

/// What cuDNN is told of a convolution.
struct Descriptors {
  cudnnTensorDescriptor_t x, out;
  cudnnFilterDescriptor_t weight;
  cudnnConvolutionDescriptor_t conv;

  Descriptors(const Operands& operands, const ConvolutionDescriptor& convolution)
      : x(operands.x), out(operands.out), weight(operands.weight), conv(convolution) {}
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

/// An algorithm with the arithmetic that it was recommended with.
struct Way {
  int algorithm;
  ConvolutionDescriptor conv;
  std::size_t scratch;
};

/// The ways to compute one kind of convolution, the fastest first, by cuDNN's own estimate. None: cuDNN refuses it.
struct Plan {
  Operands operands;
  std::vector<Way> ways;
  bool may_be_kept = true;  ///< see DnnAnswers
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

/// Without tensor cores, whose float32 is TF32.
bool is_exact(const Conv& c, bool tf32) { return c.x.dtype == kFloat32 && !tf32; }
/// What cuDNN may recommend algorithms for. Its default is tensor cores for float32 (Ampere and later) only.
cudnnMathType_t arithmetic_of(const Conv& c, bool tf32) {
  if (is_exact(c, tf32)) return CUDNN_FMA_MATH;
  return size_of(c.x.dtype) == 2 ? CUDNN_TENSOR_OP_MATH : CUDNN_DEFAULT_MATH;
}

constexpr const char* kDescribing = "describing a convolution";

bool describe(const Conv& c, const Operands& d, DnnAnswers& answers) {
  const cudnnDataType_t type = dnn_type(c.x.dtype, name_of(c.map));
  const cudnnTensorFormat_t format = c.channels_last ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW;
  const auto size = [](const View& v, int i) { return static_cast<int>(v.sizes[i]); };
  const auto accepts = [&](cudnnStatus_t status) { return answers.take(status, kDescribing); };
  return accepts(
             cudnnSetTensor4dDescriptor(d.x, format, type, size(c.x, 0), size(c.x, 1), size(c.x, 2), size(c.x, 3))) &&
         accepts(cudnnSetTensor4dDescriptor(d.out, format, type, size(c.out, 0), size(c.out, 1), size(c.out, 2),
                                            size(c.out, 3))) &&
         accepts(cudnnSetFilter4dDescriptor(d.weight, type, format, size(c.weight, 0), size(c.weight, 1),
                                            size(c.weight, 2), size(c.weight, 3)));
}

bool describe(const Conv& c, cudnnMathType_t math, const ConvolutionDescriptor& conv, DnnAnswers& answers) {
  const ConvGeometry& g = c.geometry;
  const auto number = [](int64_t n) { return static_cast<int>(n); };
  const auto accepts = [&](cudnnStatus_t status) { return answers.take(status, kDescribing); };
  const cudnnDataType_t sums = c.x.dtype == kFloat64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
  return accepts(cudnnSetConvolution2dDescriptor(conv, number(g.padding.h), number(g.padding.w), number(g.stride.h),
                                                 number(g.stride.w), number(g.dilation.h), number(g.dilation.w),
                                                 CUDNN_CROSS_CORRELATION, sums)) &&
         accepts(cudnnSetConvolutionGroupCount(conv, number(g.groups))) &&
         accepts(cudnnSetConvolutionMathType(conv, math));
}

template <class Map>
void find_ways(cudnnHandle_t handle, const Conv& c, bool tf32, Plan& plan, DnnAnswers& answers) {
  const ConvolutionDescriptor asked;
  if (!describe(c, arithmetic_of(c, tf32), asked, answers)) return;
  typename Map::Result results[Map::kAlgorithms];
  int count = 0;
  if (!answers.take(Map::rank(handle, {plan.operands, asked}, &count, results), "cudnnGetConvolutionAlgorithm_v7")) {
    return;
  }
  const bool exact = is_exact(c, tf32);
  for (int i = 0; i < count; ++i) {
    if (results[i].status != CUDNN_STATUS_SUCCESS) continue;
    if (deterministic() && results[i].determinism != CUDNN_DETERMINISTIC) continue;
    Way way{results[i].algo, {}, 0};
    // An algorithm's needs depend on the arithmetic that it was recommended with.
    if (describe(c, exact ? CUDNN_FMA_MATH : results[i].mathType, way.conv, answers) &&
        answers.take(Map::scratch(handle, {plan.operands, way.conv}, results[i].algo, &way.scratch),
                     "cudnnGetConvolutionWorkspaceSize")) {
      plan.ways.push_back(std::move(way));
    }
  }
}

std::shared_ptr<const Plan> make_plan(cudnnHandle_t handle, const Conv& c, bool tf32) {
  const auto plan = std::make_shared<Plan>();
  DnnAnswers answers(name_of(c.map));
  by_map(c.map, [&](auto map) {
    if (describe(c, plan->operands, answers)) find_ways<decltype(map)>(handle, c, tf32, *plan, answers);
    return true;
  });
  plan->may_be_kept = answers.may_be_kept();
  return plan;
}

/// For all threads. Never destroyed: the library may be gone before static objects are.
struct Plans {
  std::mutex mutex;
  Lru<ConvKey, std::shared_ptr<const Plan>, WordsHash> cache{1024};
};

std::shared_ptr<const Plan> plan_for(cudnnHandle_t handle, const Conv& c) {
  static auto& plans = *new Plans;
  const bool tf32 = convolution_tf32();
  const std::lock_guard lock(plans.mutex);
  const ConvKey key = conv_key(c, tf32);
  const std::shared_ptr<const Plan> plan = plans.cache.get(key, [&] { return make_plan(handle, c, tf32); });
  if (!plan->may_be_kept) plans.cache.drop(key);
  return plan;
}

/// False where the way is closed this time: no memory, or cuDNN has changed its mind.
template <class Map>
bool take(const Way& way, cudnnHandle_t handle, const Conv& c, const Plan& plan) {
  const Workspace scratch(way.scratch, std::nothrow);
  if (way.scratch > 0 && !scratch.data()) return false;
  const DnnScalar one(1, c.x.dtype), zero(0, c.x.dtype);
  return is_served(Map::run(handle, {plan.operands, way.conv}, c, static_cast<typename Map::Algorithm>(way.algorithm),
                            scratch.data(), way.scratch, one, zero),
                   name_of(c.map), "cudnnConvolution");
}

}  // namespace

bool convolve_by_cudnn(const Conv& conv) {
  if (!can_be_said(conv)) return false;
  const cudnnHandle_t handle = dnn_handle();
  const std::shared_ptr<const Plan> plan = plan_for(handle, conv);
  if (plan->ways.empty()) return false;
  const char* op = name_of(conv.map);
  Conv there = conv;  // where tensor cores may have its operands
  Aligned operands[3];
  View* const views[] = {&there.x, &there.weight, &there.out};
  for (int k = 0; k < 3; ++k) {
    View& view = *views[k];
    const std::size_t bytes = static_cast<std::size_t>(view.numel) * size_of(view.dtype);
    const bool writes = &view == &there.result();
    view.data =
        writes ? operands[k].write(view.data, bytes) : const_cast<void*>(operands[k].read(op, view.data, bytes));
  }
  const bool done = by_map(conv.map, [&](auto map) {
    return std::any_of(plan->ways.begin(), plan->ways.end(),
                       [&](const Way& way) { return take<decltype(map)>(way, handle, there, *plan); });
  });
  if (!done) return false;
  for (const Aligned& operand : operands) operand.written(op);
  return true;
}

}  // namespace tendril::cuda
