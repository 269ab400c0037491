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

/// Shared state of the future of a coroutine's outcome.
template <class T>
class TaskState final : public FutureState<T> {
 public:
  using FutureState<T>::FutureState;

 private:
  ~TaskState() override {
    if (const auto error = this->unread_error()) report_unread_error(this->executor(), "a coroutine (Task)", error);
  }
};

/// Base of the promise types of Task<T> and Task<void>. The coroutine starts at once on the caller's thread. When it
/// first suspends, the caller's CallContext is restored, even if the coroutine has made another one current.
///
/// The outcome is published after the coroutine frame has been destroyed, so that code which waits for the outcome may
/// then release objects that the coroutine's locals and arguments refer to.
template <class T>
class TaskPromiseBase {
 public:
  std::suspend_never initial_suspend() const noexcept { return {}; }
  auto final_suspend() const noexcept { return Publish(); }
  Task<T> get_return_object();
  void unhandled_exception() noexcept { error_ = std::current_exception(); }
  /// The context of the thread that starts the coroutine, to be restored at the first suspension.
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

/// A coroutine that returns a T; served functions may return it. It starts at once. While it is suspended in `co_await
/// future` it holds neither a thread nor a slot, so thousands of coroutines can be suspended in one worker. It resumes
/// in the pool, under a slot, with the CallContext that it was suspended with. It runs to its end even if the Task is
/// destroyed; an error that was never read is then reported (unread_error.h). Its result becomes available once its
/// locals and arguments have been destroyed. Objects passed by reference must outlive the coroutine, so take arguments
/// by value, except in a served function, whose arguments live long enough.
template <class T = void>
class Task {
 public:
  using promise_type = detail::TaskPromise<T>;
  using value_type = T;

  explicit Task(Future<T> future) noexcept : future_(std::move(future)) {}

  /// The future of the coroutine's result.
  const Future<T>& future() const& noexcept { return future_; }
  Future<T> future() && noexcept { return std::move(future_); }
  operator Future<T>() const { return future_; }  ///< the future of the coroutine's result
  /// Waits for the coroutine's result, like Future::wait.
  decltype(auto) wait() const& { return future_.wait(); }
  /// Waits for the coroutine's result.
  T wait() && { return std::move(future_).wait(); }
  auto operator co_await() const { return future_.operator co_await(); }  ///< suspends until the result is available

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
