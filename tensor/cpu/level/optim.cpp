#include <cstddef>
#include <utility>

#include "tendril/tensor/cpu/level/level.h"
#include "tendril/tensor/optim_step.h"

/// Optimizers' functors as loops: one for each choice of arrays, so that what a step has not costs nothing, and each is
/// vector code.
namespace tendril::cpu::TENDRIL_CPU_LEVEL {
namespace {

template <class Rule, unsigned kHas, class T>
struct Stepped {
  template <std::size_t... K>
  static void run(const Rule& rule, void* const* arrays, int64_t count, std::index_sequence<K...>) {
    T* p[sizeof...(K)] = {static_cast<T*>(arrays[K])...};
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) {
      T x[sizeof...(K)] = {((kHas >> K & 1) != 0 ? p[K][i] : T(0))...};
      rule.template operator()<kHas>(x);
      (((kHas >> K & 1) != 0 && K != 1 ? void(p[K][i] = x[K]) : void()), ...);
    }
  }
  static void loop(const void* rule, void* const* arrays, int64_t count) {
    const Rule own = *static_cast<const Rule*>(rule);  // nobody else's: its numbers stay in registers
    run(own, arrays, count, std::make_index_sequence<static_cast<std::size_t>(Rule::kArrays)>{});
  }
};

/// A step has parameter and gradient, and nothing beyond its arrays.
template <class Rule, unsigned kHas>
constexpr std::array<StepLoop, 2> loops_with() {
  if constexpr ((kHas & 3) == 3 && kHas >> Rule::kArrays == 0) {
    return {Stepped<Rule, kHas, float>::loop, Stepped<Rule, kHas, double>::loop};
  } else {
    return {nullptr, nullptr};
  }
}

template <class Rule, unsigned... kHas>
constexpr StepLoops loops_of(std::integer_sequence<unsigned, kHas...>) {
  return {{loops_with<Rule, kHas>()...}};
}

template <class Rules>
struct AllOf;
template <class... Rule>
struct AllOf<std::variant<Rule...>> {
  static constexpr std::array<StepLoops, sizeof...(Rule)> kLoops = {
      {loops_of<Rule>(std::make_integer_sequence<unsigned, 1U << StepBlock::kMostArrays>{})...}};
};

}  // namespace

extern const std::array<StepLoops, std::variant_size_v<StepRule>> step_loops;
const std::array<StepLoops, std::variant_size_v<StepRule>> step_loops = AllOf<StepRule>::kLoops;

}  // namespace tendril::cpu::TENDRIL_CPU_LEVEL
