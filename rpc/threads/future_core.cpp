#include "tendril/rpc/threads/future_core.h"

#include <coroutine>
#include <memory>
#include <mutex>
#include <utility>

#include "tendril/rpc/error.h"
#include "tendril/rpc/system/allocations_must_succeed.h"
#include "tendril/rpc/system/mutex.h"
#include "tendril/rpc/threads/release.h"
#include "tendril/tensor/detail/switched_variable.h"

namespace tendril::rpc {

namespace {

/// Completing a future may complete others, which may complete more. Up to this depth, callbacks run recursively.
constexpr int kMaxDepth = 32;

/// This thread's callbacks that became ready beyond kMaxDepth. They run when the stack has unwound.
struct Deferred {
  int depth = 0;
  FutureCallback* first = nullptr;
  FutureCallback** last = &first;
};
thread_local Deferred deferred;
const auto deferred_switched = tendril::detail::of_each_thread([]() -> auto& { return deferred; });

/// Wakes a thread that has no I/O to drive.
class PassiveWaiter final : public FutureCallback {
 public:
  void run(FutureCore&) noexcept override {
    const std::lock_guard lock(mutex_);
    done_ = true;
    wake_.notify_one();
  }
  bool wait_until(Clock::time_point deadline) {
    std::unique_lock lock(mutex_);
    return wake_.wait_until(lock, deadline, [this] { return done_; });
  }

 private:
  detail::Mutex mutex_;
  detail::Condition wake_;
  bool done_ = false;
};

}  // namespace

void FutureCore::destroy(FutureCore* core) noexcept {
  std::unique_ptr<FutureCore> owned(core);
  if (!detail::in_io_callback() || !core->holds_users_object()) return;
  const Ref<Executor> executor = core->executor_;
  detail::release(std::move(owned), executor.get());
}

void FutureCore::run_callback(FutureCallback& callback) noexcept {
  ++deferred.depth;
  callback.run(*this);
  --deferred.depth;
}

void FutureCore::run_callbacks(FutureCallback* list) noexcept {
  if (deferred.depth >= kMaxDepth) {
    for (FutureCallback* callback = list; callback; callback = callback->next_) {
      callback->ready_ = Ref<FutureCore>(this).take();
      *deferred.last = callback;
      deferred.last = &callback->next_;
    }
    return;
  }
  while (list) {
    FutureCallback& callback = *list;
    list = callback.next_;
    run_callback(callback);
  }
  if (deferred.depth == 0) run_deferred();
}

void FutureCore::run_deferred() noexcept {
  while (FutureCallback* callback = deferred.first) {
    deferred.first = callback->next_;
    if (!deferred.first) deferred.last = &deferred.first;
    const auto ready = Ref<FutureCore>::adopt(std::exchange(callback->ready_, nullptr));
    ready->run_callback(*callback);
  }
}

void FutureCore::attach(FutureCallback& callback) {
  // task 2.2: to the end of the list of callbacks (first_, last_), or, if the future is done, run at once
  {
    const std::lock_guard lock(mutex_);
    callback.next_ = nullptr;
    if (!done()) {
      *last_ = &callback;
      last_ = &callback.next_;
      return;
    }
  }
  run_callbacks(&callback);
  // end of task
}

bool FutureCore::detach(FutureCallback& callback) noexcept {
  const std::lock_guard lock(mutex_);
  for (FutureCallback** at = &first_; *at; at = &(*at)->next_) {
    if (*at != &callback) continue;
    *at = callback.next_;
    if (last_ == &callback.next_) last_ = at;
    return true;
  }
  return false;
}

void FutureCore::publish(std::exception_ptr error) noexcept {
  const Ref<FutureCore> self(this);  // a callback may drop the last other reference
  FutureCallback* list = nullptr;
  {
    const std::lock_guard lock(mutex_);
    error_ = std::move(error);
    status_.store(Status::done, std::memory_order_release);
    list = std::exchange(first_, nullptr);
    last_ = &first_;
  }
  if (list) run_callbacks(list);
}

bool FutureCore::try_set_error(std::exception_ptr error) {
  if (!claim()) return false;
  publish(std::move(error));
  return true;
}

void FutureCore::fail_abandoned() noexcept {
  try_set_error(std::make_exception_ptr(UsageError("Promise: destroyed before its result was set")));
}

void FutureCore::wait() { wait_until(Clock::time_point::max()); }

bool FutureCore::wait_until(Clock::time_point deadline) {
  if (done()) return true;
  run_deferred();  // the future may depend on a callback that this thread has deferred
  if (done()) return true;
  if (deadline != Clock::time_point::max() && deadline <= Clock::now()) return false;
  BlockedScope blocked("Future::wait");
  Executor* const executor = executor_ ? executor_.get() : Executor::current();
  if (executor) return executor->wait(*this, deadline);
  PassiveWaiter waiter;
  attach(waiter);
  // A callback that cannot be detached is about to run, so the waiter must stay alive until it has run.
  return waiter.wait_until(deadline) || (!detach(waiter) && waiter.wait_until(Clock::time_point::max()));
}

namespace detail {

void resume_on(Executor& executor, std::coroutine_handle<> coroutine) noexcept {
  const AllocationsMustSucceed result;  // otherwise the coroutine would never be resumed
  post(executor, [coroutine] { coroutine.resume(); });
}

}  // namespace detail

}  // namespace tendril::rpc
