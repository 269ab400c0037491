#pragma once

#include <coroutine>
#include <exception>
#include <utility>

#include "tendril/rpc/future.h"

namespace tendril::rpc {

template <class T>
class Task;

namespace detail {

/// What the promise types of Task<T> and Task<void> share. The coroutine starts at once on the caller's thread; where
/// it first suspends, the caller gets its own CallContext back, whatever the coroutine had made current.
class TaskPromiseBase {
 public:
  std::suspend_never initial_suspend() const noexcept { return {}; }
  std::suspend_never final_suspend() const noexcept { return {}; }
  /// The context of the thread that runs the coroutine's first part, until it is taken back at the first suspension.
  CallContext& caller_context() noexcept { return caller_context_; }

 private:
  CallContext caller_context_ = CallContext::current();
};

template <class T>
class TaskPromise : public TaskPromiseBase {
 public:
  Task<T> get_return_object();
  template <class U>
  void return_value(U&& value) {
    result_.set_value(std::forward<U>(value));
  }
  void unhandled_exception() { result_.set_error(std::current_exception()); }

 private:
  Promise<T> result_;
};

template <>
class TaskPromise<void> : public TaskPromiseBase {
 public:
  Task<void> get_return_object();
  void return_void() { result_.set_value(); }
  void unhandled_exception() { result_.set_error(std::current_exception()); }

 private:
  Promise<void> result_;
};

}  // namespace detail

/// A coroutine that yields a T; also what a served function may return. It starts at once, and while it is suspended in
/// `co_await future` it holds neither a thread nor a slot: thousands may be parked in one worker. Once resumed (in the
/// pool, under a slot) its CallContext is as it was. It runs to its end whether or not anybody holds the Task.
/// Arguments taken by reference must outlive the coroutine: take them by value.
template <class T = void>
class Task {
 public:
  using promise_type = detail::TaskPromise<T>;
  using value_type = T;

  explicit Task(Future<T> future) noexcept : future_(std::move(future)) {}

  const Future<T>& future() const& noexcept { return future_; }
  Future<T> future() && noexcept { return std::move(future_); }
  operator Future<T>() const { return future_; }
  decltype(auto) wait() const& { return future_.wait(); }
  T wait() && { return std::move(future_).wait(); }
  auto operator co_await() const { return future_.operator co_await(); }

 private:
  Future<T> future_;
};

namespace detail {
template <class T>
Task<T> TaskPromise<T>::get_return_object() {
  return Task<T>(result_.future());
}
inline Task<void> TaskPromise<void>::get_return_object() { return Task<void>(result_.future()); }
}  // namespace detail

}  // namespace tendril::rpc
