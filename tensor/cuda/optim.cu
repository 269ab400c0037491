#include "tendril/tensor/cuda/kernel.cuh"

#include <cmath>
#include <span>

#include "tendril/tensor/cuda/cuda.h"
#include "tendril/tensor/error.h"

/// An optimizer's step over many parameters. Their addresses travel in the kernel's arguments, as many at a time as
/// fit; each block of threads does one chunk of one parameter. Nothing is allocated, and nobody waits.
namespace tendril::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kChunk = 8192;          // elements of a block: a multiple of kThreads times the widest vector
constexpr std::size_t kListBytes = 3600;  // of 4096 that a kernel's arguments may have

/// N arrays of each of many parameters. `first` counts chunks: parameter t has those in [first[t], first[t + 1]).
template <int N>
struct TensorList {
  static constexpr int kCapacity = static_cast<int>(kListBytes / (N * sizeof(void*) + sizeof(int64_t) + sizeof(int)));
  void* arrays[kCapacity][N];
  int64_t counts[kCapacity];
  int first[kCapacity + 1];
  int size = 0;
};

template <class T>
struct alignas(16) Pack {
  static constexpr int kSize = 16 / sizeof(T);
  T lanes[kSize];
};

/// One element of a parameter and of what belongs to it; `reads` and `writes` have a bit for each array.
template <class T>
struct SgdRule {
  static constexpr int kArrays = 3;  // parameter, gradient, momentum
  T lr, decay, sign, momentum, kept, entering;
  bool nesterov;
  unsigned reads, writes;

  SgdRule(const SgdStep& step)
      : lr(static_cast<T>(step.lr)),
        decay(static_cast<T>(step.weight_decay)),
        sign(step.maximize ? T(-1) : T(1)),
        momentum(static_cast<T>(step.momentum)),
        kept(static_cast<T>(step.kept)),
        entering(static_cast<T>(step.entering)),
        nesterov(step.nesterov),
        reads(step.momentum == 0 ? 0b011 : 0b111),
        writes(step.momentum == 0 ? 0b001 : 0b101) {}

  __device__ void operator()(T (&x)[kArrays]) const {
    T g = sign * x[1];
    if (decay != T(0)) g += decay * x[0];
    if (momentum != T(0)) {
      x[2] = kept * x[2] + entering * g;
      g = nesterov ? g + momentum * x[2] : x[2];
    }
    x[0] -= lr * g;
  }
};

template <class T>
struct AdamRule {
  static constexpr int kArrays = 5;  // parameter, gradient, averages of gradients and of squares, largest of the latter
  T step_size, v_scale, beta1, one_minus_beta1, beta2, one_minus_beta2, eps, decay, sign;
  bool amsgrad;
  unsigned reads, writes;

  AdamRule(const AdamStep& step)
      : step_size(static_cast<T>(step.step_size)),
        v_scale(static_cast<T>(step.v_scale)),
        beta1(static_cast<T>(step.beta1)),
        one_minus_beta1(static_cast<T>(step.one_minus_beta1)),
        beta2(static_cast<T>(step.beta2)),
        one_minus_beta2(static_cast<T>(step.one_minus_beta2)),
        eps(static_cast<T>(step.eps)),
        decay(static_cast<T>(step.weight_decay)),
        sign(step.maximize ? T(-1) : T(1)),
        amsgrad(step.amsgrad),
        reads(step.amsgrad ? 0b11111 : 0b01111),
        writes(step.amsgrad ? 0b11101 : 0b01101) {}

  __device__ void operator()(T (&x)[kArrays]) const {
    T g = sign * x[1];
    if (decay != T(0)) g += decay * x[0];
    x[2] = beta1 * x[2] + one_minus_beta1 * g;
    x[3] = beta2 * x[3] + one_minus_beta2 * g * g;
    T v = x[3];
    if (amsgrad) v = x[4] = x[4] < v ? v : x[4];
    x[0] -= step_size * x[2] / (std::sqrt(v) / v_scale + eps);
  }
};

template <class T, class Rule>
__global__ void __launch_bounds__(kThreads) step_kernel(TensorList<Rule::kArrays> list, Rule rule) {
  constexpr int kArrays = Rule::kArrays, kLanes = Pack<T>::kSize;
  int t = 0, after = list.size;  // the parameter that this chunk is of
  while (after - t > 1) {
    const int middle = (t + after) / 2;
    (static_cast<int>(blockIdx.x) < list.first[middle] ? after : t) = middle;
  }
  const int64_t begin = (static_cast<int64_t>(blockIdx.x) - list.first[t]) * kChunk;
  const int64_t end = begin + kChunk < list.counts[t] ? begin + kChunk : list.counts[t];

  T* arrays[kArrays];
  bool aligned = true;
  for (int k = 0; k < kArrays; ++k) {
    arrays[k] = static_cast<T*>(list.arrays[t][k]);
    aligned = aligned && reinterpret_cast<uintptr_t>(arrays[k]) % sizeof(Pack<T>) == 0;
  }
  int64_t rest = begin;
  if (aligned) {
    rest = begin + (end - begin) / kLanes * kLanes;
    for (int64_t i = begin + static_cast<int64_t>(threadIdx.x) * kLanes; i < rest; i += kThreads * kLanes) {
      Pack<T> packs[kArrays] = {};
      for (int k = 0; k < kArrays; ++k) {
        if (rule.reads >> k & 1) packs[k] = *reinterpret_cast<const Pack<T>*>(arrays[k] + i);
      }
      for (int lane = 0; lane < kLanes; ++lane) {
        T x[kArrays];
        for (int k = 0; k < kArrays; ++k) x[k] = packs[k].lanes[lane];
        rule(x);
        for (int k = 0; k < kArrays; ++k) packs[k].lanes[lane] = x[k];
      }
      for (int k = 0; k < kArrays; ++k) {
        if (rule.writes >> k & 1) *reinterpret_cast<Pack<T>*>(arrays[k] + i) = packs[k];
      }
    }
  }
  for (int64_t i = rest + threadIdx.x; i < end; i += kThreads) {
    T x[kArrays] = {};
    for (int k = 0; k < kArrays; ++k) {
      if (rule.reads >> k & 1) x[k] = arrays[k][i];
    }
    rule(x);
    for (int k = 0; k < kArrays; ++k) {
      if (rule.writes >> k & 1) arrays[k][i] = x[k];
    }
  }
}

/// As many launches as it takes to name all parameters; `fill(block, arrays)` says where each has its elements.
template <class T, class Rule, class Block, class Fill>
void step_all(const char* op, std::span<const Block> blocks, const Rule& rule, Fill fill) {
  using List = TensorList<Rule::kArrays>;
  static_assert(sizeof(List) + sizeof(Rule) <= 4096, "too much for a kernel's arguments");
  constexpr int64_t kMostChunks = INT32_MAX / 2;
  List list;
  list.first[0] = 0;
  const auto flush = [&] {
    if (list.size == 0) return;
    const Grid grid{dim3(static_cast<unsigned>(list.first[list.size])), dim3(kThreads)};
    launch(op, step_kernel<T, Rule>, grid, list, rule);
    list.size = 0;
  };
  for (const Block& block : blocks) {
    if (block.count == 0) continue;
    const int64_t chunks = (block.count + kChunk - 1) / kChunk;
    TENDRIL_CHECK(chunks <= kMostChunks, op, ": a parameter of ", block.count, " elements is too large");
    if (list.size == List::kCapacity || list.first[list.size] + chunks > kMostChunks) flush();
    fill(block, list.arrays[list.size]);
    list.counts[list.size] = block.count;
    list.first[list.size + 1] = list.first[list.size] + static_cast<int>(chunks);
    ++list.size;
  }
  flush();
}

template <class F>
void visit_floating(DType dtype, const char* op, F&& f) {
  if (dtype == kFloat32) return f(float{});
  TENDRIL_CHECK_AS(DTypeError, dtype == kFloat64, op, ": expected float32 or float64, got ", dtype);
  f(double{});
}

}  // namespace

void sgd(std::span<const SgdBlock> blocks, DType dtype, const SgdStep& step) {
  visit_floating(dtype, "sgd", [&](auto zero) {
    using T = decltype(zero);
    step_all<T>("sgd", blocks, SgdRule<T>(step), [](const SgdBlock& block, void** arrays) {
      arrays[0] = block.param;
      arrays[1] = const_cast<void*>(block.grad);
      arrays[2] = block.momentum;
    });
  });
}

void adam(std::span<const AdamBlock> blocks, DType dtype, const AdamStep& step) {
  visit_floating(dtype, "adam", [&](auto zero) {
    using T = decltype(zero);
    step_all<T>("adam", blocks, AdamRule<T>(step), [](const AdamBlock& block, void** arrays) {
      arrays[0] = block.param;
      arrays[1] = const_cast<void*>(block.grad);
      arrays[2] = block.exp_avg;
      arrays[3] = block.exp_avg_sq;
      arrays[4] = block.max_exp_avg_sq;
    });
  });
}

}  // namespace tendril::cuda
