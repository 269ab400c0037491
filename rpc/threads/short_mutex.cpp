#include "tendril/rpc/threads/short_mutex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tendril/rpc/system/simulator.h"

namespace tendril::rpc::detail {

static_assert(sizeof(std::atomic<int>) == sizeof(int) && std::atomic<int>::is_always_lock_free);

void ShortMutex::wait() noexcept {
  while (state_.exchange(kWanted, std::memory_order_acquire) != kFree) {
    if (simulator != nullptr) {
      simulator->wait(&state_);
      continue;
    }
    ::syscall(SYS_futex, &state_, FUTEX_WAIT_PRIVATE, kWanted, nullptr, nullptr, 0);
  }
}

void ShortMutex::wake(std::atomic<int>* state) noexcept {
  if (simulator != nullptr) return simulator->wake(state);
  ::syscall(SYS_futex, state, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

}  // namespace tendril::rpc::detail
