#pragma once

#include <algorithm>
#include <cstdint>

#include "tendril/tensor/cpu/level/level.h"
#include "tendril/tensor/philox.h"

namespace tendril::cpu {

/// Blocks of random numbers at a time.
inline constexpr int64_t kWordBlocks = 64;

/// body(block, words, count) for blocks [begin, end) of a stream of random numbers (philox.h), some at a time: `words`
/// are those of `count` of them from `block` on. `offset` is added to their numbers.
template <class Body>
void for_random_words(uint64_t seed, uint64_t offset, int64_t begin, int64_t end, const Body& body) {
  static_assert(kWordBlocks % kRandomBlocks == 0);
  alignas(64) uint32_t words[4 * kWordBlocks];
  for (int64_t block = begin; block < end; block += kWordBlocks) {
    const int64_t count = std::min(kWordBlocks, end - block);
    loops().random_words(seed, offset + static_cast<uint64_t>(block), count, words);
    body(block, words, count);
  }
}

}  // namespace tendril::cpu
