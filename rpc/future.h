#pragma once

#include <coroutine>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "tendril/rpc/call_context.h"
#include "tendril/rpc/error.h"
#include "tendril/rpc/executor.h"
#include "tendril/rpc/threads/future_core.h"
#include "tendril/rpc/threads/unread_error.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::rpc {

template <class T>
class Future;

/// The shared state of all futures of one result. The producer of the result may derive from it, so that a call's
/// bookkeeping and its future share one allocation.
template <class T>
class FutureState : public FutureCore {
 public:
  using Value = std::conditional_t<std::is_void_v<T>, std::monostate, T>;  ///< type of the stored value

  using FutureCore::FutureCore;

  /// Completes with a value and runs the continuations. Returns false, and changes nothing, if it was already complete.
  template <class... Args>
  bool try_set_value(Args&&... args) {
    if (!claim()) return false;
    try {
      value_.emplace(std::forward<Args>(args)...);
    } catch (...) {
      publish(std::current_exception());
      return true;
    }
    publish(nullptr);
    return true;
  }
  Value& value() noexcept { return *value_; }  ///< requires that it is done, without an error

  /// The first of two steps that complete this state: stores a value that is not visible until the second step. Only
  /// for use by the sole producer of the result.
  template <class... Args>
  Value& prepare_value(Args&&... args) {
    return value_.emplace(std::forward<Args>(args)...);
  }
  /// The second step: publishes the stored value, or an error.
  void complete_prepared(std::exception_ptr error) noexcept {
    if (claim()) publish(std::move(error));
  }

 protected:
  bool holds_users_object() const noexcept override { return !std::is_trivially_destructible_v<Value>; }

 private:
  std::optional<Value> value_;
};

namespace detail {
template <class T>
struct unwrap_future {
  using type = T;
  static constexpr bool nested = false;
};
template <class T>
struct unwrap_future<Future<T>> {
  using type = T;
  static constexpr bool nested = true;
};
template <class T, class F>
class ThenState;
template <class T>
class FutureAwaiter;
}  // namespace detail

/// A handle to a result that becomes available later, or to the error instead of it. Copies share one state.
/// Thread-safe. Cannot be sent to another worker. A default-constructed future is empty: only `valid()` may be called.
template <class T = void>
class Future {
 public:
  using value_type = T;

  Future() = default;
  explicit Future(Ref<FutureState<T>> state) noexcept : state_(std::move(state)) {}

  /// Whether it refers to a result: false if it was default-constructed or moved from.
  bool valid() const noexcept { return state_ != nullptr; }
  bool done() const { return core().done(); }  ///< whether the value or the error is available
  /// Whether it is done and has an error.
  bool has_error() const { return core().done() && core().error() != nullptr; }

  /// Waits, then returns the value or throws the error; may be called repeatedly. It takes no timeout, because the
  /// future of a call is done by the call's deadline at the latest. Throws UsageError in an I/O callback (a
  /// continuation that a waiting or leading thread runs): there, attach a continuation or co_await instead.
  decltype(auto) wait() const& {
    core().wait();
    return result();
  }
  /// Waits on a temporary: moves the value out if no other future shares it, or if it cannot be copied.
  T wait() && {
    core().wait();
    core().rethrow_error();
    if constexpr (!std::is_void_v<T>) {
      if constexpr (std::is_copy_constructible_v<T>) {
        if (state_->use_count() > 1) return T(state_->value());
      }
      return std::move(state_->value());
    }
  }
  /// Returns true as soon as the result is available, or false once the deadline has passed. Does not cancel anything.
  bool wait_until(Clock::time_point deadline) const { return core().wait_until(deadline); }
  /// Returns true as soon as the result is available, or false once `time` has passed.
  template <class Rep, class Period>
  bool wait_for(std::chrono::duration<Rep, Period> time) const {
    return wait_until(deadline_after(time));
  }

  /// Runs `f(ready future)` when the result or the error is available: at once on this thread if it already is,
  /// otherwise on the thread that completes this future. `f` must not block; it runs with the CallContext that is
  /// current now. The returned future gets the value that `f` returns (or its result, if `f` returns a future), or the
  /// exception that `f` throws. `f` is destroyed before that result becomes visible or, if it ran on a thread that
  /// drives I/O, soon afterwards on a pool thread.
  template <class F>
  auto then(F f) const -> Future<typename detail::unwrap_future<std::invoke_result_t<F, Future<T>>>::type>;

  /// Suspends the coroutine until the result is available. A coroutine that was suspended on a pool thread resumes in
  /// that pool, any other in the pool of the agent that made the call, or, without an agent, on the completing thread.
  /// It resumes with the CallContext that it was suspended with.
  detail::FutureAwaiter<T> operator co_await() const { return detail::FutureAwaiter<T>(*this); }

  /// The state that it shares with its promise; for internal use.
  const Ref<FutureState<T>>& state() const noexcept { return state_; }

 private:
  FutureCore& core() const {
    if (!state_) throw UsageError("Future: used while empty (default-constructed or moved from)");
    return *state_;
  }
  std::conditional_t<std::is_void_v<T>, void, std::add_lvalue_reference_t<const T>> result() const {
    core().rethrow_error();
    if constexpr (!std::is_void_v<T>) return state_->value();
  }

  Ref<FutureState<T>> state_;
};

/// The producer's side of a future. Movable, not copyable. If it is destroyed without a result, the future fails.
template <class T = void>
class Promise {
 public:
  Promise() : state_(new FutureState<T>(Executor::current())) {}
  explicit Promise(Executor* executor) : state_(new FutureState<T>(executor)) {}
  Promise(Promise&&) noexcept = default;
  Promise& operator=(Promise&& other) noexcept {
    abandon();
    state_ = std::move(other.state_);
    return *this;
  }
  ~Promise() { abandon(); }

  /// Returns a future of this promise's result.
  Future<T> future() const { return Future<T>(state_); }
  /// Completes the future and runs its continuations on this thread. Throws UsageError if it is already complete.
  template <class... Args>
  void set_value(Args&&... args) {
    if (!state().try_set_value(std::forward<Args>(args)...)) throw_set_twice();
  }
  /// Completes the future with an error. Throws UsageError if it is already complete.
  void set_error(std::exception_ptr error) {
    if (!state().try_set_error(std::move(error))) throw_set_twice();
  }
  /// Completes the future with an error. Returns false, and changes nothing, if it is already complete.
  bool try_set_error(std::exception_ptr error) { return state().try_set_error(std::move(error)); }

 private:
  [[noreturn]] static void throw_set_twice() { throw UsageError("Promise: the result was set already"); }
  FutureState<T>& state() const {
    if (!state_) throw UsageError("Promise: used after it was moved from");
    return *state_;
  }
  void abandon() noexcept {
    if (state_ && !state_->done()) state_->fail_abandoned();
  }

  Ref<FutureState<T>> state_;
};

/// Returns a future that is done, with this value.
template <class T>
Future<std::decay_t<T>> make_ready_future(T&& value) {
  Promise<std::decay_t<T>> promise;
  promise.set_value(std::forward<T>(value));
  return promise.future();
}
/// Returns a future that is done, without a value.
inline Future<void> make_ready_future() {
  Promise<void> promise;
  promise.set_value();
  return promise.future();
}
/// Returns a future that is done, with this error.
template <class T = void>
Future<T> make_error_future(std::exception_ptr error) {
  Promise<T> promise;
  promise.set_error(std::move(error));
  return promise.future();
}

/// Returns a future that is done once all of `futures` are, whatever their outcome. Its value is the futures
/// themselves, in the same order.
template <class T>
Future<std::vector<Future<T>>> collect_all(std::vector<Future<T>> futures);

/// Waits for all futures and returns their values in order (nothing for Future<void>). Throws the first error as soon
/// as it occurs, without waiting for the rest.
template <class T>
auto wait_all(std::vector<Future<T>> futures);

}  // namespace tendril::rpc

TENDRIL_API_END

#include "tendril/rpc/threads/future_inl.h"
