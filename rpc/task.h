#pragma once

#include <coroutine>
#include <exception>
#include <utility>

#include "tendril/rpc/future.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::rpc {

template <class T>
class Task;

namespace detail {

/// The future of a coroutine's outcome.
template <class T>
class TaskState final : public FutureState<T> {
 public:
  using FutureState<T>::FutureState;

 private:
  ~TaskState() override {
    if (const auto error = this->unread_error()) report_unread_error(this->executor(), "a coroutine (Task)", error);
  }
};

/// What the promise types of Task<T> and Task<void> share. The coroutine starts at once on the caller's thread; where
/// it first suspends, the caller gets its own CallContext back, whatever the coroutine had made current.
///
/// The outcome is published when nothing of the coroutine is left: whoever sees it may release what the coroutine's
/// locals and arguments refer to.
template <class T>
class TaskPromiseBase {
 public:
  std::suspend_never initial_suspend() const noexcept { return {}; }
  auto final_suspend() const noexcept { return Publish(); }
  Task<T> get_return_object();
  void unhandled_exception() noexcept { error_ = std::current_exception(); }
  /// The context of the thread that runs the coroutine's first part, until it is taken back at the first suspension.
  CallContext& caller_context() noexcept { return caller_context_; }

 protected:
  Ref<FutureState<T>> result_{new TaskState<T>(Executor::current())};

 private:
  struct Publish {
    bool await_ready() const noexcept { return false; }
    template <class P>
    void await_suspend(std::coroutine_handle<P> finished) const noexcept {
      TaskPromiseBase& promise = finished.promise();
      const Ref<FutureState<T>> result = std::move(promise.result_);
      std::exception_ptr error = std::move(promise.error_);
      finished.destroy();  // and this awaiter with it
      result->complete_prepared(std::move(error));
    }
    void await_resume() const noexcept {}
  };

  std::exception_ptr error_;
  CallContext caller_context_ = CallContext::current();
};

template <class T>
class TaskPromise : public TaskPromiseBase<T> {
 public:
  template <class U>
  void return_value(U&& value) {
    this->result_->prepare_value(std::forward<U>(value));
  }
};

template <>
class TaskPromise<void> : public TaskPromiseBase<void> {
 public:
  void return_void() { result_->prepare_value(); }
};

}  // namespace detail

/// A coroutine that yields a T; also what a served function may return. It starts at once, and while it is suspended in
/// `co_await future` it holds neither a thread nor a slot: thousands may be parked in one worker. Once resumed (in the
/// pool, under a slot) its CallContext is as it was. It runs to its end whether or not anybody holds the Task; an error
/// that nobody has read then is reported (unread_error.h). Its result is there once its locals and arguments have been
/// destroyed. What arguments taken by reference refer to must outlive the coroutine: take them by value, except in a
/// served function, whose arguments do live that long.
template <class T = void>
class Task {
 public:
  using promise_type = detail::TaskPromise<T>;
  using value_type = T;

  explicit Task(Future<T> future) noexcept : future_(std::move(future)) {}

  /// Of the coroutine's result.
  const Future<T>& future() const& noexcept { return future_; }
  Future<T> future() && noexcept { return std::move(future_); }
  operator Future<T>() const { return future_; }  ///< of the coroutine's result
  /// Waits for the coroutine; as Future::wait.
  decltype(auto) wait() const& { return future_.wait(); }
  /// Waits for the coroutine's result.
  T wait() && { return std::move(future_).wait(); }
  auto operator co_await() const { return future_.operator co_await(); }  ///< suspends until the result is there

 private:
  Future<T> future_;
};

namespace detail {
template <class T>
Task<T> TaskPromiseBase<T>::get_return_object() {
  return Task<T>(Future<T>(result_));
}
}  // namespace detail

}  // namespace tendril::rpc

TENDRIL_API_END
