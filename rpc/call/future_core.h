#pragma once

#include <atomic>
#include <exception>

#include "tendril/rpc/call_context.h"
#include "tendril/rpc/executor.h"
#include "tendril/rpc/threads/short_mutex.h"
#include "tendril/tensor/export.h"
#include "tendril/tensor/ref.h"

TENDRIL_API_BEGIN

namespace tendril::rpc {

class FutureCore;

/// What runs when a future is complete: a continuation, a waiting thread's wake-up, a suspended coroutine.
/// Intrusive, so that attaching one allocates nothing.
class FutureCallback {
 public:
  virtual ~FutureCallback() = default;
  /// Called once, without locks, by the completing thread (or the attaching one, if the future was complete). It may
  /// delete the callback.
  virtual void run(FutureCore& ready) noexcept = 0;

 private:
  friend class FutureCore;
  FutureCallback* next_ = nullptr;
  FutureCore* ready_ = nullptr;  // of a callback that was put off: an owned reference
};

/// The part of a future's shared state that does not depend on the result's type. Thread-safe.
class FutureCore : public RefCounted {
 public:
  static void destroy(FutureCore* core) noexcept;

  /// `executor`: whose I/O a waiting thread drives and where co_await resumes; may be null.
  explicit FutureCore(Executor* executor) noexcept : executor_(executor) {}
  virtual ~FutureCore() = default;

  bool done() const noexcept { return status_.load(std::memory_order_acquire) == Status::done; }
  /// Once done; null: a value.
  const std::exception_ptr& error() const noexcept {
    if (error_) error_read_.store(true, std::memory_order_relaxed);
    return error_;
  }
  void rethrow_error() const {
    if (error()) std::rethrow_exception(error_);
  }
  /// For destructors, so that no error is lost in silence: the error, if nobody has asked for it; else null.
  std::exception_ptr unread_error() const noexcept {
    return error_ && !error_read_.load(std::memory_order_relaxed) ? error_ : nullptr;
  }
  Executor* executor() const noexcept { return executor_.get(); }

  void wait();
  bool wait_until(Clock::time_point deadline);

  /// Runs the callback when done: now, if it is. The callback stays alive until it has run or was removed.
  void attach(FutureCallback& callback);
  /// True if it was attached and will not run; false if it has run or is about to.
  bool detach(FutureCallback& callback) noexcept;

  /// Completes with an error. False if the future was complete already.
  bool try_set_error(std::exception_ptr error);
  void fail_abandoned() noexcept;  ///< the promise went away

 protected:
  /// The one caller that gets true stores the value and calls `publish`.
  bool claim() noexcept {
    Status expected = Status::pending;
    return status_.compare_exchange_strong(expected, Status::claimed, std::memory_order_acq_rel);
  }
  void publish(std::exception_ptr error) noexcept;

  /// Whether a destructor of the user's may run with this one's.
  virtual bool holds_users_object() const noexcept { return true; }

 private:
  void run_callback(FutureCallback& callback) noexcept;
  void run_callbacks(FutureCallback* list) noexcept;
  static void run_deferred() noexcept;

  enum class Status : uint8_t { pending, claimed, done };

  std::atomic<Status> status_{Status::pending};
  mutable std::atomic<bool> error_read_{false};
  detail::ShortMutex mutex_;  // the callback list
  FutureCallback* first_ = nullptr;
  FutureCallback** last_ = &first_;
  std::exception_ptr error_;
  Ref<Executor> executor_;
};

}  // namespace tendril::rpc

TENDRIL_API_END
