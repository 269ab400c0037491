#include "tendril/tensor/random.h"

#include "tendril/tensor/philox.h"

namespace tendril {

uint64_t Generator::bits() noexcept {
  const State at = reserve(1);
  const philox::Block words = philox::block(at.seed, at.offset);
  return uint64_t{words[1]} << 32 | words[0];
}

double Generator::uniform() noexcept { return static_cast<double>(bits() >> 11) * 0x1p-53; }

uint64_t Generator::below(uint64_t bound) noexcept {
  if (bound == 0) return 0;
  const uint64_t surplus = (0 - bound) % bound;  // 2^64 mod bound: drawing again below it leaves whole multiples
  while (true) {
    const uint64_t drawn = bits();
    if (drawn >= surplus) return drawn % bound;
  }
}

Generator& default_generator() noexcept {
  static Generator* const generator = new Generator(67280421310721);  // never destroyed: late users are legal
  return *generator;
}

void manual_seed(uint64_t seed) noexcept { default_generator().manual_seed(seed); }

}  // namespace tendril
