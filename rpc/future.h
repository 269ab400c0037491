#pragma once

#include <coroutine>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "tendril/rpc/call/future_core.h"
#include "tendril/rpc/call/unread_error.h"
#include "tendril/rpc/call_context.h"
#include "tendril/rpc/error.h"
#include "tendril/rpc/executor.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::rpc {

template <class T>
class Future;

/// The shared state of futures of one result. Whoever produces the result may derive from it, so that a call's
/// bookkeeping and its future are one allocation.
template <class T>
class FutureState : public FutureCore {
 public:
  using Value = std::conditional_t<std::is_void_v<T>, std::monostate, T>;  ///< what is kept

  using FutureCore::FutureCore;

  /// Completes with a value and runs the continuations. False if it was complete already: then nothing changes.
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
  Value& value() noexcept { return *value_; }  ///< done, without an error

  /// In two steps, for the only one that completes this state: nobody sees the value before the second one.
  template <class... Args>
  Value& prepare_value(Args&&... args) {
    return value_.emplace(std::forward<Args>(args)...);
  }
  /// The second step: publishes the value, or an error.
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

/// A result that comes later, or the error in its place. A reference: copies share one state.
/// Thread-safe. Cannot be sent to another worker. A default-constructed future is empty: only `valid()` may be asked.
template <class T = void>
class Future {
 public:
  using value_type = T;

  Future() = default;
  explicit Future(Ref<FutureState<T>> state) noexcept : state_(std::move(state)) {}

  /// Whether it belongs to a result at all: false of a default-constructed or moved-from one.
  bool valid() const noexcept { return state_ != nullptr; }
  bool done() const { return core().done(); }  ///< whether the value or the error is there
  /// Whether it is ready, and with an exception.
  bool has_error() const { return core().done() && core().error() != nullptr; }

  /// Waits, then returns the value or throws the error; may be called again and again. Futures of calls end by the
  /// call's deadline, so this needs none of its own. Throws UsageError in an I/O callback (a continuation that a
  /// waiting or leading thread runs): attach a continuation or co_await there instead.
  decltype(auto) wait() const& {
    core().wait();
    return result();
  }
  /// Of a temporary: moves the value out if no other future shares it (or if it cannot be copied).
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
  /// True as soon as the result is there, false if it did not come in time. Nothing is cancelled.
  bool wait_until(Clock::time_point deadline) const { return core().wait_until(deadline); }
  /// Whether it was ready within `time`.
  template <class Rep, class Period>
  bool wait_for(std::chrono::duration<Rep, Period> time) const {
    return wait_until(deadline_after(time));
  }

  /// Runs `f(ready future)` when the result or the error is there: at once on this thread if it is there already, else
  /// on the thread that completes it, with the CallContext of now. It must not block. What `f` returns (a future's
  /// result, if it returns a future) is the result of the future returned here; what it throws is its error. `f` itself
  /// is destroyed before that result is seen, or, if it ran on a thread that drives I/O, soon after on a pool thread.
  template <class F>
  auto then(F f) const -> Future<typename detail::unwrap_future<std::invoke_result_t<F, Future<T>>>::type>;

  /// co_await: a pool thread's coroutine resumes in its pool, another's in the pool of the agent that made the call;
  /// where there is neither, on the completing thread. The CallContext of the suspension is restored.
  detail::FutureAwaiter<T> operator co_await() const { return detail::FutureAwaiter<T>(*this); }

  /// What it shares with its promise; for parts of rpc/.
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

/// The side that completes a future. Moves, never copies; one that goes away without a result leaves an error behind.
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

  /// Of this promise's result.
  Future<T> future() const { return Future<T>(state_); }
  /// Completes the future and runs its continuations on this thread. Throws UsageError if it is complete already.
  template <class... Args>
  void set_value(Args&&... args) {
    if (!state().try_set_value(std::forward<Args>(args)...)) throw_set_twice();
  }
  /// Makes it fail.
  void set_error(std::exception_ptr error) {
    if (!state().try_set_error(std::move(error))) throw_set_twice();
  }
  /// Sets the error, unless there is a result already: then false.
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

/// A future that is complete.
template <class T>
Future<std::decay_t<T>> make_ready_future(T&& value) {
  Promise<std::decay_t<T>> promise;
  promise.set_value(std::forward<T>(value));
  return promise.future();
}
/// One that is ready.
inline Future<void> make_ready_future() {
  Promise<void> promise;
  promise.set_value();
  return promise.future();
}
/// One that has failed.
template <class T = void>
Future<T> make_error_future(std::exception_ptr error) {
  Promise<T> promise;
  promise.set_error(std::move(error));
  return promise.future();
}

/// Complete once every one of `futures` is, whatever their outcome; the value is the futures themselves, in order.
template <class T>
Future<std::vector<Future<T>>> collect_all(std::vector<Future<T>> futures);

/// Waits for all and returns their values in order (nothing for Future<void>). The first error to come is thrown at
/// once, without waiting for the rest.
template <class T>
auto wait_all(std::vector<Future<T>> futures);

}  // namespace tendril::rpc

TENDRIL_API_END

#include "tendril/rpc/call/future_inl.h"
