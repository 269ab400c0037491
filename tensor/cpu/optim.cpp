#include <algorithm>

#include "tendril/tensor/cpu/cpu.h"
#include "tendril/tensor/cpu/half_blocks.h"
#include "tendril/tensor/cpu/level/level.h"
#include "tendril/tensor/cpu/parallel.h"
#include "tendril/tensor/cpu/paths.h"

namespace tendril::cpu {
namespace {

/// Updates elements [begin, end) of a block's arrays.
using StepRange = void (*)(StepLoop loop, const void* rule, const StepBlock& block, int64_t begin, int64_t end);

template <class T>
void step_range(StepLoop loop, const void* rule, const StepBlock& block, int64_t begin, int64_t end) {
  void* from[StepBlock::kMostArrays];
  for (int k = 0; k < StepBlock::kMostArrays; ++k) {
    T* const start = static_cast<T*>(block.arrays[k]);
    from[k] = start ? start + begin : nullptr;
  }
  loop(rule, from, end - begin);
}

/// A parameter and a gradient of T beside float32, a block at a time.
template <class T>
void step_half_range(StepLoop loop, const void* rule, const StepBlock& block, int64_t begin, int64_t end) {
  const auto widen = [](const void* x, int64_t length, float* to) {
    widen_block<T>(static_cast<const char*>(x), sizeof(T), length, to);
  };
  for (int64_t first = begin; first < end; first += kHalfBlock) {
    const int64_t length = std::min(kHalfBlock, end - first);
    T* const param = static_cast<T*>(block.arrays[0]) + first;
    float wide[kHalfBlock], grad[kHalfBlock];
    float* stepped = wide;
    widen(param, length, wide);
    widen(static_cast<const T*>(block.arrays[1]) + first, length, grad);
    if (block.master) {
      stepped = block.master + first;
      T rounded[kHalfBlock];
      float expected[kHalfBlock];
      narrow_block<T>(stepped, length, reinterpret_cast<char*>(rounded), sizeof(T));
      widen(rounded, length, expected);
      for (int64_t i = 0; i < length; ++i) stepped[i] = expected[i] == wide[i] ? stepped[i] : wide[i];
    }
    void* from[StepBlock::kMostArrays] = {stepped, grad};
    for (int k = 2; k < StepBlock::kMostArrays; ++k) {
      float* const start = static_cast<float*>(block.arrays[k]);
      from[k] = start ? start + first : nullptr;
    }
    loop(rule, from, length);
    narrow_block<T>(stepped, length, reinterpret_cast<char*>(param), sizeof(T));
  }
}

StepRange range_of(const char* op, DType dtype) {
  switch (dtype) {
    case kFloat32:
      return step_range<float>;
    case kFloat64:
      return step_range<double>;
    case kFloat16:
      return step_half_range<Half>;
    case kBFloat16:
      return step_half_range<BFloat16>;
    default:
      detail::raise<DTypeError>(op, ": expected a floating dtype, got ", dtype);
  }
}

}  // namespace

void optimizer_step(std::span<const StepBlock> blocks, DType dtype, const StepRule& rule) {
  std::visit(
      [&](const auto& step) {
        const StepRange range = range_of(step.kName, dtype);
        const StepLoop loop = loops().step[rule.index()][step.arrays()][dtype == kFloat64];
        int64_t elements = 0;
        for (const StepBlock& block : blocks) elements += block.count;
        took(Path::optimizer_step, elements);
        // As if they lay behind each other: many parameters too small for two threads each are enough together.
        parallel_for(elements, kParallelGrain, [&](int64_t begin, int64_t end) {
          int64_t first = 0;  // of the block
          for (const StepBlock& block : blocks) {
            const int64_t from = std::max(begin - first, int64_t{0}), past = std::min(end - first, block.count);
            if (from < past) range(loop, &step, block, from, past);
            first += block.count;
            if (first >= end) break;
          }
        });
      },
      rule);
}

}  // namespace tendril::cpu
