#pragma once

#include <cstddef>

// What AddressSanitizer must be told (a build with TENDRIL_SANITIZE=address): which stack runs, and which device memory
// is nobody's. A kernel that reads beyond an allocation is then reported at once.
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace cuda_emulator {

#ifdef __SANITIZE_ADDRESS__
inline constexpr bool kAddressSanitizer = true;
#else
inline constexpr bool kAddressSanitizer = false;
#endif

inline void forbid([[maybe_unused]] const void* memory, [[maybe_unused]] std::size_t bytes) {
#ifdef __SANITIZE_ADDRESS__
  __asan_poison_memory_region(memory, bytes);
#endif
}
inline void allow([[maybe_unused]] const void* memory, [[maybe_unused]] std::size_t bytes) {
#ifdef __SANITIZE_ADDRESS__
  __asan_unpoison_memory_region(memory, bytes);
#endif
}

struct Stack {
  const void* bottom = nullptr;
  std::size_t bytes = 0;
};

/// Before a switch to `next`; the result goes to after_switch when this stack runs again.
inline void* before_switch([[maybe_unused]] const Stack& next) {
  void* own = nullptr;
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_start_switch_fiber(&own, next.bottom, next.bytes);
#endif
  return own;
}
/// `previous` becomes the stack that ran before.
inline void after_switch([[maybe_unused]] void* own, [[maybe_unused]] Stack& previous) {
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(own, &previous.bottom, &previous.bytes);
#endif
}

}  // namespace cuda_emulator
