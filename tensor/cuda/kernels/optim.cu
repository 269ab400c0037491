#include "tendril/tensor/cuda/kernels/kernel.cuh"
#include "tendril/tensor/cuda/runtime/capture.h"

#include <span>
#include <utility>
#include <variant>

#include "tendril/tensor/cuda/cuda.h"
#include "tendril/tensor/cuda/kernels/element.cuh"
#include "tendril/tensor/cuda/kernels/pack.cuh"
#include "tendril/tensor/error.h"

/// An optimizer's functor (optim_step.h) over many parameters. Their addresses travel in the kernel's arguments, as
/// many at a time as fit; each block of threads does one chunk of one parameter. Nothing is allocated, and nobody
/// waits. State of halves is float32.
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

/// Rules say what they have, and write all of it but the gradient.
template <unsigned kHas>
__device__ constexpr bool has(int k) {
  return (kHas >> k & 1) != 0;
}

/// A block's elements of one parameter.
struct Chunk {
  int parameter;
  int64_t begin, end;
};

template <class List>
__device__ Chunk chunk_of(const List& list) {
  int t = 0, after = list.size;
  while (after - t > 1) {
    const int middle = (t + after) / 2;
    (static_cast<int>(blockIdx.x) < list.first[middle] ? after : t) = middle;
  }
  const int64_t begin = (static_cast<int64_t>(blockIdx.x) - list.first[t]) * kChunk;
  return {t, begin, begin + kChunk < list.counts[t] ? begin + kChunk : list.counts[t]};
}

template <class T, class Rule, unsigned kHas>
__global__ void __launch_bounds__(kThreads) step_kernel(TensorList<Rule::kArrays> list, Rule rule) {
  constexpr int kArrays = Rule::kArrays, kLanes = kPerLoad<T>;
  const auto [t, begin, end] = chunk_of(list);

  T* arrays[kArrays];
  bool aligned = true;
  for (int k = 0; k < kArrays; ++k) {
    arrays[k] = static_cast<T*>(list.arrays[t][k]);
    aligned = aligned && reinterpret_cast<uintptr_t>(arrays[k]) % sizeof(Pack<T, kLanes>) == 0;
  }
  int64_t rest = begin;
  if (aligned) {
    rest = begin + (end - begin) / kLanes * kLanes;
    for (int64_t i = begin + static_cast<int64_t>(threadIdx.x) * kLanes; i < rest; i += kThreads * kLanes) {
      Pack<T, kLanes> packs[kArrays] = {};
      for (int k = 0; k < kArrays; ++k) {
        if (has<kHas>(k)) packs[k] = *reinterpret_cast<const Pack<T, kLanes>*>(arrays[k] + i);
      }
      for (int lane = 0; lane < kLanes; ++lane) {
        T x[kArrays];
        for (int k = 0; k < kArrays; ++k) x[k] = packs[k].at[lane];
        rule.template operator()<kHas>(x);
        for (int k = 0; k < kArrays; ++k) packs[k].at[lane] = x[k];
      }
      for (int k = 0; k < kArrays; ++k) {
        if (has<kHas>(k) && k != 1) *reinterpret_cast<Pack<T, kLanes>*>(arrays[k] + i) = packs[k];
      }
    }
  }
  for (int64_t i = rest + threadIdx.x; i < end; i += kThreads) {
    T x[kArrays] = {};
    for (int k = 0; k < kArrays; ++k) {
      if (has<kHas>(k)) x[k] = arrays[k][i];
    }
    rule.template operator()<kHas>(x);
    for (int k = 0; k < kArrays; ++k) {
      if (has<kHas>(k) && k != 1) arrays[k][i] = x[k];
    }
  }
}

/// The arrays of a list: parameter and gradient of T, float32 state, and last the float32 master weight or null.
template <class T, class Rule, unsigned kHas>
__global__ void __launch_bounds__(kThreads) step_half_kernel(TensorList<Rule::kArrays + 1> list, Rule rule) {
  constexpr int kArrays = Rule::kArrays;
  const auto [t, begin, end] = chunk_of(list);
  void* const* const arrays = list.arrays[t];
  float* const master = static_cast<float*>(arrays[kArrays]);
  for (int64_t i = begin + threadIdx.x; i < end; i += kThreads) {
    float x[kArrays] = {to_compute(static_cast<const T*>(arrays[0])[i]),
                        to_compute(static_cast<const T*>(arrays[1])[i])};
    if (master && to_compute(from_compute<T>(master[i])) == x[0]) x[0] = master[i];
    for (int k = 2; k < kArrays; ++k) {
      if (has<kHas>(k)) x[k] = static_cast<const float*>(arrays[k])[i];
    }
    rule.template operator()<kHas>(x);
    for (int k = 2; k < kArrays; ++k) {
      if (has<kHas>(k)) static_cast<float*>(arrays[k])[i] = x[k];
    }
    if (master) master[i] = x[0];
    static_cast<T*>(arrays[0])[i] = from_compute<T>(x[0]);
  }
}

/// As many launches as it takes to name all parameters.
template <class T, class Rule, unsigned kHas>
void step_all(std::span<const StepBlock> blocks, const Rule& rule) {
  constexpr int kPointers = Rule::kArrays + (is_half<T> ? 1 : 0);
  using List = TensorList<kPointers>;
  static_assert(sizeof(List) + sizeof(Rule) <= 4096, "too much for a kernel's arguments");
  constexpr int64_t kMostChunks = INT32_MAX / 2;
  List list;
  list.first[0] = 0;
  const auto flush = [&] {
    if (list.size == 0) return;
    const Grid grid{dim3(static_cast<unsigned>(list.first[list.size])), dim3(kThreads)};
    if constexpr (is_half<T>) {
      launch(Rule::kName, step_half_kernel<T, Rule, kHas>, grid, list, rule);
    } else {
      launch(Rule::kName, step_kernel<T, Rule, kHas>, grid, list, rule);
    }
    list.size = 0;
  };
  for (const StepBlock& block : blocks) {
    if (block.count == 0) continue;
    const int64_t chunks = (block.count + kChunk - 1) / kChunk;
    TENDRIL_CHECK(chunks <= kMostChunks, Rule::kName, ": a parameter of ", block.count, " elements is too large");
    if (list.size == List::kCapacity || list.first[list.size] + chunks > kMostChunks) flush();
    for (int k = 0; k < Rule::kArrays; ++k) list.arrays[list.size][k] = block.arrays[k];
    if constexpr (is_half<T>) list.arrays[list.size][Rule::kArrays] = block.master;
    list.counts[list.size] = block.count;
    list.first[list.size + 1] = list.first[list.size] + static_cast<int>(chunks);
    ++list.size;
  }
  flush();
}

/// step_all for the arrays that this step has, among all choices that have parameter and gradient.
template <class T, class Rule, unsigned... kState>
void step_with(std::span<const StepBlock> blocks, const Rule& rule, std::integer_sequence<unsigned, kState...>) {
  const unsigned arrays = rule.arrays();
  ((arrays == (kState << 2 | 3) ? step_all<T, Rule, (kState << 2 | 3)>(blocks, rule) : void()), ...);
}

}  // namespace

void optimizer_step(std::span<const StepBlock> blocks, DType dtype, const StepRule& rule) {
  std::visit(
      [&](const auto& step) {
        using Rule = std::decay_t<decltype(step)>;
        if constexpr (!std::is_same_v<Rule, SgdStep>) {
          refuse_unless_renewed(Rule::kName, "its numbers change from step to step");
        }
        constexpr std::make_integer_sequence<unsigned, 1U << (Rule::kArrays - 2)> kStates{};
        visit_floating(Rule::kName, dtype,
                       [&](auto tag) { step_with<typename decltype(tag)::type>(blocks, step, kStates); });
      },
      rule);
}

}  // namespace tendril::cuda
