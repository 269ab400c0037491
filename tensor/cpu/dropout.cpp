#include <algorithm>

#include "tendril/tensor/cpu/cpu.h"
#include "tendril/tensor/cpu/half_blocks.h"
#include "tendril/tensor/cpu/loops.h"
#include "tendril/tensor/cpu/words.h"
#include "tendril/tensor/detail/dispatch.h"
#include "tendril/tensor/detail/draw.h"

namespace tendril::cpu {

void dropout(const View& out, const View& x, double p, uint64_t seed, uint64_t offset) {
  TENDRIL_CHECK_AS(DTypeError, is_floating(out.dtype), "dropout: no cpu kernel for ", out.dtype);
  detail::visit(out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_floating_point_v<Compute<T>>) {
      const uint64_t threshold = detail::DrawBernoulli(1 - p).threshold;
      const auto scale = static_cast<Compute<T>>(p < 1 ? 1 / (1 - p) : 0.0);
      T* const to = out.as<T>();
      const T* const from = x.as<const T>();
      parallel_for((out.numel + 3) / 4, kParallelGrain / 8, [&](int64_t begin, int64_t end) {
        for_random_words(seed, offset, begin, end, [&](int64_t block, const uint32_t* words, int64_t blocks) {
          const int64_t first = 4 * block, count = std::min(4 * blocks, out.numel - first);
          // Selected, not multiplied by 0: dropped elements may be infinite or NaN.
          const auto kept = [&](int64_t k, Compute<T> value) {
            return words[k] < threshold ? value * scale : Compute<T>(0);
          };
          if constexpr (is_half_type<T>) {
            static_assert(4 * kWordBlocks <= kHalfBlock);
            float wide[kHalfBlock];
            widen_block<T>(reinterpret_cast<const char*>(from + first), sizeof(T), count, wide);
            for (int64_t k = 0; k < count; ++k) wide[k] = kept(k, wide[k]);
            narrow_block<T>(wide, count, reinterpret_cast<char*>(to + first), sizeof(T));
          } else {
            for (int64_t k = 0; k < count; ++k) to[first + k] = kept(k, from[first + k]);
          }
        });
      });
    }
  });
}

}  // namespace tendril::cpu
