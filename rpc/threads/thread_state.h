#pragma once

namespace tendril::rpc::detail {

class Loop;

/// What a pool thread runs, and counts among.
enum class Slot { none, handler, release };

/// What this thread is doing for which loop. Every thread of the process has one.
struct ThreadState {
  Loop* pool = nullptr;     ///< whose pool it belongs to
  Loop* leading = nullptr;  ///< the loop that it leads
  Slot slot = Slot::none;   ///< given back while it waits
  int io_callbacks = 0;     ///< depth of I/O callbacks: it must not block
  /// It runs a handler that is likely to be short, and another is there for it: what it sends may wait (held_sends.h).
  bool more_follows = false;
  int must_allocate = 0;  ///< depth of AllocationsMustSucceed (allocations_must_succeed.h)

  static ThreadState& current() noexcept {
    thread_local ThreadState state;
    return state;
  }
};

/// While it lives, a wait() on this thread is an error: it could stop the I/O that it waits for.
class IoCallbackScope {
 public:
  IoCallbackScope() noexcept { ++ThreadState::current().io_callbacks; }
  ~IoCallbackScope() { --ThreadState::current().io_callbacks; }
  IoCallbackScope(const IoCallbackScope&) = delete;
  IoCallbackScope& operator=(const IoCallbackScope&) = delete;
};

}  // namespace tendril::rpc::detail
