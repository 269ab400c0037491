#pragma once

namespace tendril::rpc::detail {

class Loop;

/// The kind of job that a pool thread runs.
enum class Slot { none, handler, release };

/// The current thread's role in a loop. Every thread of the process has one.
struct ThreadState {
  Loop* pool = nullptr;     ///< the loop whose pool it belongs to
  Loop* leading = nullptr;  ///< the loop that it leads
  Slot slot = Slot::none;   ///< none while it waits
  int io_callbacks = 0;     ///< nesting depth of I/O callbacks, in which it must not block
  /// It runs a handler that is likely to be short, and another one is queued: its frames may be held (held_sends.h).
  bool more_follows = false;
  int must_allocate = 0;  ///< nesting depth of AllocationsMustSucceed (allocations_must_succeed.h)

  static ThreadState& current() noexcept {
    thread_local ThreadState state;
    return state;
  }
};

/// While one exists, a wait() on this thread is an error: it could stop the I/O that it waits for.
class IoCallbackScope {
 public:
  IoCallbackScope() noexcept { ++ThreadState::current().io_callbacks; }
  ~IoCallbackScope() { --ThreadState::current().io_callbacks; }
  IoCallbackScope(const IoCallbackScope&) = delete;
  IoCallbackScope& operator=(const IoCallbackScope&) = delete;
};

}  // namespace tendril::rpc::detail
