#include "tendril/tensor/cpu/loops.h"

#ifdef TENDRIL_HAS_AVX2_LOOPS
#include <cpuid.h>
#endif

namespace tendril::cpu {

namespace base {
extern const Loops all;
}
#ifdef TENDRIL_HAS_AVX2_LOOPS
namespace avx2 {
extern const Loops all;
}

namespace {
// Clang 16's __builtin_cpu_supports does not know "f16c". That the system saves the registers, AVX2's question asks.
bool supports_f16c() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & bit_F16C);
}
}  // namespace
#endif

std::vector<const Loops*> all_loops() {
  std::vector<const Loops*> levels = {&base::all};
#ifdef TENDRIL_HAS_AVX2_LOOPS
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2") &&
      supports_f16c()) {
    levels.push_back(&avx2::all);
  }
#endif
  return levels;
}

// Valid before any dynamic initialisation, so that tensors in static objects of other files may compute.
constinit const Loops* best_loops = &base::all;

namespace {
[[maybe_unused]] const bool chosen = (best_loops = all_loops().back(), true);
}

}  // namespace tendril::cpu
