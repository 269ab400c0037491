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

/// A callback that runs when a future is complete: a continuation, a waiting thread's wake-up, or a coroutine's
/// resumption. It is intrusive, so that attaching one allocates nothing.
class FutureCallback {
 public:
  virtual ~FutureCallback() = default;
  /// Called once, with no locks held, by the thread that completes the future (or the one that attaches the callback,
  /// if the future was complete already). It may delete the callback.
  virtual void run(FutureCore& ready) noexcept = 0;

 private:
  friend class FutureCore;
  FutureCallback* next_ = nullptr;
  FutureCore* ready_ = nullptr;  // an owned reference to the complete future while the callback is deferred
};

/// The part of a future's shared state that does not depend on the result's type. Thread-safe.
class FutureCore : public RefCounted {
 public:
  static void destroy(FutureCore* core) noexcept;

  /// A waiting thread drives the I/O of `executor`, and co_await resumes on it. It may be null.
  explicit FutureCore(Executor* executor) noexcept : executor_(executor) {}
  virtual ~FutureCore() = default;

  bool done() const noexcept { return status_.load(std::memory_order_acquire) == Status::done; }
  /// Requires done(). Returns null if the future has a value. Marks the error as read.
  const std::exception_ptr& error() const noexcept {
    if (error_) error_read_.store(true, std::memory_order_relaxed);
    return error_;
  }
  void rethrow_error() const {
    if (error()) std::rethrow_exception(error_);
  }
  /// Returns the error if it has never been read, else null. For destructors, so that no error is lost silently.
  std::exception_ptr unread_error() const noexcept {
    return error_ && !error_read_.load(std::memory_order_relaxed) ? error_ : nullptr;
  }
  Executor* executor() const noexcept { return executor_.get(); }

  void wait();
  bool wait_until(Clock::time_point deadline);

  /// Runs the callback when the future is done, or at once if it is done already. The callback must stay alive until it
  /// has run or has been detached.
  void attach(FutureCallback& callback);
  /// Returns true if the callback was attached and will not run, false if it has run or is about to.
  bool detach(FutureCallback& callback) noexcept;

  /// Completes with an error. Returns false if the future was complete already.
  bool try_set_error(std::exception_ptr error);
  void fail_abandoned() noexcept;  ///< for a promise that is destroyed without a result

 protected:
  /// The one caller that gets true stores the value and calls `publish`.
  bool claim() noexcept {
    Status expected = Status::pending;
    return status_.compare_exchange_strong(expected, Status::claimed, std::memory_order_acq_rel);
  }
  void publish(std::exception_ptr error) noexcept;

  /// Whether destroying this object may run a destructor in user code.
  virtual bool holds_users_object() const noexcept { return true; }

 private:
  void run_callback(FutureCallback& callback) noexcept;
  void run_callbacks(FutureCallback* list) noexcept;
  static void run_deferred() noexcept;

  enum class Status : uint8_t { pending, claimed, done };

  std::atomic<Status> status_{Status::pending};
  mutable std::atomic<bool> error_read_{false};
  detail::ShortMutex mutex_;  // guards the list of callbacks
  FutureCallback* first_ = nullptr;
  FutureCallback** last_ = &first_;
  std::exception_ptr error_;
  Ref<Executor> executor_;
};

}  // namespace tendril::rpc

TENDRIL_API_END
