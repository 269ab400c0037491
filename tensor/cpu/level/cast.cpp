#include "tendril/tensor/cpu/level/halves.h"
#include "tendril/tensor/cpu/level/level.h"

namespace tendril::cpu::TENDRIL_CPU_LEVEL {
namespace {

void widen_loop(char* const* pointers, const int64_t* steps, int64_t count) {
  if (steps[0] == sizeof(float) && steps[1] == sizeof(Half)) {
    return widen(reinterpret_cast<const Half*>(pointers[1]), count, reinterpret_cast<float*>(pointers[0]));
  }
  for (int64_t i = 0; i < count; ++i) {
    *reinterpret_cast<float*>(pointers[0] + i * steps[0]) =
        static_cast<float>(*reinterpret_cast<const Half*>(pointers[1] + i * steps[1]));
  }
}

void narrow_loop(char* const* pointers, const int64_t* steps, int64_t count) {
  if (steps[0] == sizeof(Half) && steps[1] == sizeof(float)) {
    return narrow(reinterpret_cast<const float*>(pointers[1]), count, reinterpret_cast<Half*>(pointers[0]));
  }
  for (int64_t i = 0; i < count; ++i) {
    *reinterpret_cast<Half*>(pointers[0] + i * steps[0]) =
        Half(*reinterpret_cast<const float*>(pointers[1] + i * steps[1]));
  }
}

}  // namespace

extern const HalfCasts half_casts;
const HalfCasts half_casts = {widen_loop, narrow_loop};

}  // namespace tendril::cpu::TENDRIL_CPU_LEVEL
