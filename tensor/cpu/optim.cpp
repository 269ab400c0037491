#include <algorithm>

#include "tendril/tensor/cpu/cpu.h"
#include "tendril/tensor/cpu/level/level.h"
#include "tendril/tensor/cpu/parallel.h"
#include "tendril/tensor/cpu/paths.h"

namespace tendril::cpu {

void optimizer_step(std::span<const StepBlock> blocks, DType dtype, const StepRule& rule) {
  std::visit(
      [&](const auto& step) {
        TENDRIL_CHECK_AS(DTypeError, dtype == kFloat32 || dtype == kFloat64, step.kName,
                         ": expected float32 or float64, got ", dtype);
        const StepLoop loop = loops().step[rule.index()][step.arrays()][dtype == kFloat64];
        const auto run = [&](const StepBlock& block, int64_t begin, int64_t end) {
          void* from[StepBlock::kMostArrays];
          for (int k = 0; k < StepBlock::kMostArrays; ++k) {
            char* const start = static_cast<char*>(block.arrays[k]);
            from[k] = start ? start + begin * static_cast<int64_t>(size_of(dtype)) : nullptr;
          }
          loop(&step, from, end - begin);
        };
        int64_t elements = 0;
        for (const StepBlock& block : blocks) elements += block.count;
        took(Path::optimizer_step, elements);
        // As if they lay behind each other: many parameters too small for two threads each are enough together.
        parallel_for(elements, kParallelGrain, [&](int64_t begin, int64_t end) {
          int64_t first = 0;  // of the block
          for (const StepBlock& block : blocks) {
            const int64_t from = std::max(begin - first, int64_t{0}), past = std::min(end - first, block.count);
            if (from < past) run(block, from, past);
            first += block.count;
            if (first >= end) break;
          }
        });
      },
      rule);
}

}  // namespace tendril::cpu
