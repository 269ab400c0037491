#pragma once

// The templates behind future.h.

#include <atomic>
#include <coroutine>
#include <memory>

#include "tendril/rpc/threads/release.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::rpc::detail {

/// Resumes the coroutine on a thread of the executor.
void resume_on(Executor& executor, std::coroutine_handle<> coroutine) noexcept;

/// Completes `to` with the outcome of `from` when `from` is done.
template <class T>
class Forwarder final : public FutureCallback {
 public:
  static void attach(Future<T> from, Ref<FutureState<T>> to) {
    from.state()->attach(*new Forwarder(from.state(), std::move(to)));
  }
  void run(FutureCore&) noexcept override {
    const std::unique_ptr<Forwarder> self(this);
    if (from_->error()) {
      to_->try_set_error(from_->error());
    } else if constexpr (std::is_copy_constructible_v<typename FutureState<T>::Value>) {
      to_->try_set_value(from_->value());
    } else {
      to_->try_set_value(std::move(from_->value()));
    }
  }

 private:
  Forwarder(Ref<FutureState<T>> from, Ref<FutureState<T>> to) : from_(std::move(from)), to_(std::move(to)) {}
  Ref<FutureState<T>> from_, to_;
};

/// A continuation and the future of its result, in one allocation.
template <class T, class F>
class ThenState final : public FutureState<typename unwrap_future<std::invoke_result_t<F, Future<T>>>::type>,
                        private FutureCallback {
 public:
  using Returned = std::invoke_result_t<F, Future<T>>;
  using Result = typename unwrap_future<Returned>::type;

  static Future<Result> attach(const Ref<FutureState<T>>& source, F f) {
    Ref<ThenState> state(new ThenState(source, std::move(f)));
    state->retain();  // until it has run
    source->attach(*state);
    return Future<Result>(std::move(state));
  }

 private:
  ThenState(Ref<FutureState<T>> source, F f)
      : FutureState<Result>(source->executor()), source_(std::move(source)), f_(std::move(f)) {}
  ~ThenState() override {
    if (const auto error = this->unread_error()) {
      report_unread_error(this->executor(), "a continuation (Future::then)", error);
    }
  }

  void run(FutureCore&) noexcept override {
    const auto self = Ref<ThenState>::adopt(this);
    CallContextScope scope(std::move(context_));
    if constexpr (unwrap_future<Returned>::nested) {
      Returned inner;
      const std::exception_ptr error = outcome([&](Future<T> ready) {
        inner = (*f_)(std::move(ready));
        if (!inner.valid()) throw UsageError("Future::then: the continuation returned an empty future");
      });
      if (error) return this->complete_prepared(error);
      Forwarder<Result>::attach(std::move(inner), Ref<FutureState<Result>>(Ref<ThenState>(this)));
    } else {
      this->complete_prepared(outcome([&](Future<T> ready) {
        if constexpr (std::is_void_v<Returned>) {
          (*f_)(std::move(ready));
          this->prepare_value();
        } else {
          this->prepare_value((*f_)(std::move(ready)));
        }
      }));
    }
  }
  /// Runs `call` and returns its error, if any. Destroys the continuation's captures before the outcome is published,
  /// because they may refer to objects of the thread that waits for the outcome.
  template <class Call>
  std::exception_ptr outcome(Call call) noexcept {
    std::exception_ptr error;
    try {
      call(Future<T>(std::move(source_)));
    } catch (...) {
      error = std::current_exception();
    }
    if constexpr (!std::is_trivially_destructible_v<F>) release(std::move(f_), this->executor());
    f_.reset();
    return error;
  }

  Ref<FutureState<T>> source_;
  std::optional<F> f_;
  CallContext context_ = CallContext::current();
};

/// The awaiter of `co_await future`. It lives in the coroutine's frame, so attaching it allocates nothing.
template <class T>
class FutureAwaiter final : private FutureCallback {
 public:
  explicit FutureAwaiter(Future<T> future) : future_(std::move(future)) {
    if (!future_.valid()) throw UsageError("co_await: the future is empty");
  }

  bool await_ready() const { return future_.done(); }
  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> handle) {
    handle_ = handle;
    context_ = CallContext::current();
    if constexpr (requires { handle.promise().caller_context(); }) {
      CallContext::current() = handle.promise().caller_context();
    }
    executor_ = Ref<Executor>(Executor::current() ? Executor::current() : future_.state()->executor());
    const Ref<FutureState<T>> state = future_.state();  // the coroutine may finish before `attach` returns
    state->attach(*this);
  }
  T await_resume() {
    future_.state()->rethrow_error();
    if constexpr (!std::is_void_v<T>) {
      if constexpr (!std::is_copy_constructible_v<T>) {
        return std::move(future_.state()->value());
      } else {
        return future_.state()->value();
      }
    }
  }

 private:
  void run(FutureCore&) noexcept override {
    // Resuming the coroutine may destroy its frame and this awaiter with it, so everything is moved out first.
    const std::coroutine_handle<> handle = handle_;
    CallContextScope scope(std::move(context_));
    if (const Ref<Executor> executor = std::move(executor_)) {
      resume_on(*executor, handle);
    } else {
      handle.resume();
    }
  }

  Future<T> future_;
  std::coroutine_handle<> handle_;
  CallContext context_;
  Ref<Executor> executor_;
};

/// Counts how many of many futures are not done yet. The derived class completes `Result`.
template <class T, class Result>
class Countdown : public FutureState<Result> {
 public:
  explicit Countdown(std::vector<Future<T>> futures)
      : FutureState<Result>(common_executor(futures)), futures_(std::move(futures)), left_(futures_.size()) {}

  void start() {
    const std::size_t count = futures_.size();
    if (count == 0) return all_done();
    for (std::size_t i = 0; i < count; ++i) {
      // A copy: after the last future has completed, `futures_` may have been moved into the result.
      const Ref<FutureState<T>> one = sources_at(i);
      one->attach(*new Entry(Ref<Countdown>(this)));
    }
  }

 protected:
  virtual void one_done(FutureCore& ready) = 0;
  virtual void all_done() = 0;
  std::vector<Future<T>> futures_;

 private:
  struct Entry final : FutureCallback {
    explicit Entry(Ref<Countdown> o) : owner(std::move(o)) {}
    void run(FutureCore& ready) noexcept override {
      const std::unique_ptr<Entry> self(this);
      owner->one_done(ready);
      if (owner->left_.fetch_sub(1, std::memory_order_acq_rel) == 1) owner->all_done();
    }
    Ref<Countdown> owner;
  };

  static Executor* common_executor(const std::vector<Future<T>>& futures) {
    for (const Future<T>& future : futures) {
      if (!future.valid()) throw UsageError("wait_all, collect_all: a future is empty");
      if (future.state()->executor()) return future.state()->executor();
    }
    return nullptr;
  }
  Ref<FutureState<T>> sources_at(std::size_t i) const { return futures_[i].state(); }

  std::atomic<std::size_t> left_;
};

template <class T>
class CollectAllState final : public Countdown<T, std::vector<Future<T>>> {
 public:
  using Countdown<T, std::vector<Future<T>>>::Countdown;

 private:
  void one_done(FutureCore&) override {}
  void all_done() override { this->try_set_value(std::move(this->futures_)); }
};

template <class T>
class WaitAllState final : public Countdown<T, void> {
 public:
  using Countdown<T, void>::Countdown;

 private:
  void one_done(FutureCore& ready) override {
    if (ready.error()) this->try_set_error(ready.error());
  }
  void all_done() override { this->try_set_value(); }
};

}  // namespace tendril::rpc::detail

namespace tendril::rpc {

template <class T>
template <class F>
auto Future<T>::then(F f) const -> Future<typename detail::unwrap_future<std::invoke_result_t<F, Future<T>>>::type> {
  core();
  return detail::ThenState<T, F>::attach(state_, std::move(f));
}

template <class T>
Future<std::vector<Future<T>>> collect_all(std::vector<Future<T>> futures) {
  Ref<detail::CollectAllState<T>> state(new detail::CollectAllState<T>(std::move(futures)));
  state->start();
  return Future<std::vector<Future<T>>>(std::move(state));
}

template <class T>
auto wait_all(std::vector<Future<T>> futures) {
  Ref<detail::WaitAllState<T>> state(new detail::WaitAllState<T>(futures));
  state->start();
  Future<void>(std::move(state)).wait();
  if constexpr (!std::is_void_v<T>) {
    std::vector<T> values;
    values.reserve(futures.size());
    for (Future<T>& future : futures) values.push_back(std::move(future).wait());
    return values;
  }
}

}  // namespace tendril::rpc

TENDRIL_API_END
