#pragma once

#include <atomic>

#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::rpc::detail {

/// A mutex for critical sections of a few instructions. Without contention, locking and unlocking make no function call
/// and take a third of the instructions of std::mutex. A thread that has to wait sleeps at once. Not recursive, not
/// fair, no condition variables. The algorithm is `mutex2` of U. Drepper, "Futexes are tricky", 2011.
class ShortMutex {
 public:
  ShortMutex() = default;
  ShortMutex(const ShortMutex&) = delete;
  ShortMutex& operator=(const ShortMutex&) = delete;

  void lock() noexcept {
    int expected = kFree;
    if (!state_.compare_exchange_strong(expected, kTaken, std::memory_order_acquire, std::memory_order_relaxed)) wait();
  }
  bool try_lock() noexcept {
    int expected = kFree;
    return state_.compare_exchange_strong(expected, kTaken, std::memory_order_acquire, std::memory_order_relaxed);
  }
  void unlock() noexcept {
    // After the exchange the mutex may be destroyed; a thread that is woken spuriously at its address checks again.
    if (state_.exchange(kFree, std::memory_order_release) == kWanted) wake(&state_);
  }

 private:
  static constexpr int kFree = 0, kTaken = 1, kWanted = 2;  // kWanted: taken, and a thread may sleep

  void wait() noexcept;
  static void wake(std::atomic<int>* state) noexcept;

  std::atomic<int> state_{kFree};
};

}  // namespace tendril::rpc::detail

TENDRIL_API_END
