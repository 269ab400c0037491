#include "tendril/tensor/random.h"

#include "tendril/tensor/detail/switched_variable.h"
#include "tendril/tensor/philox.h"
#include "tendril/tensor/state_dict.h"

namespace tendril {

namespace {
constexpr uint64_t kDefaultSeed = 67280421310721;
}

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

StateDict Generator::state_dict() const {
  const State now = state();
  StateDict dict;
  dict.insert("seed", static_cast<int64_t>(now.seed));
  dict.insert("offset", static_cast<int64_t>(now.offset));
  return dict;
}

LoadReport Generator::load_state_dict(const StateDict& dict, const LoadOptions& options) {
  StateReader reader(dict, "Generator::load_state_dict");
  const State now = state();
  auto seed = static_cast<int64_t>(now.seed), offset = static_cast<int64_t>(now.offset);
  reader.number("seed", seed);
  reader.number("offset", offset);
  LoadReport report = reader.finish(options);
  if (!options.check_only) set_state({static_cast<uint64_t>(seed), static_cast<uint64_t>(offset)});
  return report;
}

LoadReport Generator::load_state_dict(const StateDict& dict) { return load_state_dict(dict, {}); }

Generator& default_generator() noexcept {
  static Generator* const generator = new Generator(kDefaultSeed);  // never destroyed: late users are legal
  return *generator;
}

namespace {
const auto generator_switched = detail::of_each_process(
    []() -> auto& { return default_generator(); }, [] { return Generator(kDefaultSeed); });
}

void manual_seed(uint64_t seed) noexcept { default_generator().manual_seed(seed); }

}  // namespace tendril
