#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

/// A test program's own operator new, which counts and can fail: one source of a program includes this.
namespace tendril::testing {

inline std::atomic<uint64_t> allocated{0};      ///< how often it was called
inline thread_local int allocations_left = -1;  ///< of this thread; the one after them fails. -1: none does

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kHasOwnNew = false;  // these have operators of their own
#else
constexpr bool kHasOwnNew = true;
#endif

}  // namespace tendril::testing

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
void* operator new(std::size_t bytes) {
  tendril::testing::allocated.fetch_add(1, std::memory_order_relaxed);
  int& left = tendril::testing::allocations_left;
  if (left >= 0 && left-- == 0) throw std::bad_alloc();
  if (void* const piece = std::malloc(bytes > 0 ? bytes : 1)) return piece;
  throw std::bad_alloc();
}
void operator delete(void* piece) noexcept { std::free(piece); }
void operator delete(void* piece, std::size_t) noexcept { std::free(piece); }
#endif
