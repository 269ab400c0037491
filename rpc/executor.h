#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

#include "tendril/rpc/call/run_time.h"
#include "tendril/rpc/call_context.h"
#include "tendril/tensor/export.h"
#include "tendril/tensor/ref.h"

namespace tendril::rpc::detail {  // hidden
class JobQueue;
class JobSource;
class Loop;
enum class Slot;
}  // namespace tendril::rpc::detail

TENDRIL_API_BEGIN

namespace tendril::rpc {

class FutureCore;

/// One piece of work for a pool thread. One allocation: whoever posts it derives from it.
class Job {
 public:
  virtual ~Job() = default;
  /// `self` owns this job: keep it to go on later, or let it end here.
  virtual void run(std::unique_ptr<Job> self) noexcept = 0;
  /// What it is likely to take; max(): not known. If that is short nobody else is woken to lead before it runs
  /// (docs/rpc.md, rule 4). Called on any thread of the pool, under its mutex.
  virtual std::chrono::nanoseconds likely_time() const noexcept { return std::chrono::nanoseconds::max(); }
  /// A call's level says how many handlers wait for it, each for the one before; the pool keeps threads for the higher
  /// ones (docs/rpc.md). What goes on with something that was begun has the highest.
  static constexpr int kContinuation = 16;
  virtual int level() const noexcept { return kContinuation; }  ///< 0 to kContinuation
  /// The jobs of a source take turns with those of others. Null: this job takes a separate turn.
  virtual detail::JobSource* source() const noexcept { return nullptr; }
  /// The handler that it is, or goes on with.
  virtual CallOrigin origin() const noexcept { return {}; }

 private:
  friend class detail::JobQueue;
  Job* next_ = nullptr;
  uint64_t turn_ = 0;  // of one without a source
};

/// Where handlers and resumed coroutines run, and how a thread waits for a future. Each agent has one.
/// Thread-safe; outlives its agent as long as somebody holds a reference.
class Executor : public RefCounted {
 public:
  static void destroy(Executor* executor) noexcept { delete executor; }  ///< for Ref
  virtual ~Executor() = default;

  /// Runs the job on a pool thread, under a slot. After the agent's shutdown it runs at once, on the calling thread,
  /// unless that drives this executor's I/O.
  virtual void post(std::unique_ptr<Job> job) = 0;
  /// As `post`, without haste and without taking a handler's slot: for the destructors of users' objects, one at a
  /// time, and only where a handler that nobody waits for could start.
  virtual void post_release(std::unique_ptr<Job> job) { post(std::move(job)); }
  /// Returns when `future` is done (true) or the deadline has passed (false). The calling thread drives I/O meanwhile
  /// if nobody else does.
  virtual bool wait(FutureCore& future, Clock::time_point deadline) = 0;

  /// Errors of its agent's calls that were never read (unread_error.h).
  void note_unread_error() noexcept { unread_errors_.fetch_add(1, std::memory_order_relaxed); }
  /// Errors of calls that nobody had read when their last future went.
  uint64_t unread_errors() const noexcept { return unread_errors_.load(std::memory_order_relaxed); }

  /// The executor whose pool this thread belongs to; null elsewhere.
  static Executor* current() noexcept;

 protected:
  static void set_current(Executor* executor) noexcept;  ///< of the calling thread; null: none

 private:
  std::atomic<uint64_t> unread_errors_{0};
};

/// Posts a callable; the caller's CallContext is current where it runs. `run_time`: where it is kept what such
/// callables take; it must live as long as the job, for instance by a capture that `f` does not give away.
template <class F>
void post(Executor& executor, F f, int level = Job::kContinuation, detail::RunTime* run_time = nullptr) {
  struct CallableJob final : Job {
    CallableJob(F&& callable, int l, detail::RunTime* r) : f(std::move(callable)), at(l), run_time(r) {}
    void run(std::unique_ptr<Job>) noexcept override {
      CallContextScope scope(std::move(context));
      if (!run_time) return f();
      const Clock::time_point start = Clock::now();
      f();
      run_time->note(Clock::now() - start);
    }
    std::chrono::nanoseconds likely_time() const noexcept override {
      return run_time ? run_time->average() : Job::likely_time();
    }
    int level() const noexcept override { return at; }
    CallOrigin origin() const noexcept override { return context.origin; }
    F f;
    const int at;
    detail::RunTime* const run_time;
    CallContext context = CallContext::current();
  };
  executor.post(std::make_unique<CallableJob>(std::move(f), level, run_time));
}

/// Runs `f`, which blocks in a way the library cannot see (a mutex, a sleep, foreign I/O), with the pool's slot given
/// back meanwhile, so that one worker thread still suffices. Outside handlers it just runs `f`.
template <class F>
decltype(auto) blocking(F&& f);

/// Gives this pool thread's slot back for as long as it lives; `blocking` and `wait` use it. The thread goes on at once
/// afterwards, whether or not there is a slot for it again. Throws UsageError if the thread is in an I/O callback.
class BlockedScope {
 public:
  explicit BlockedScope(const char* what);
  ~BlockedScope();
  BlockedScope(const BlockedScope&) = delete;
  BlockedScope& operator=(const BlockedScope&) = delete;

 private:
  detail::Loop* pool_;  // null outside a pool
  detail::Slot slot_;   // what was given back
};

template <class F>
decltype(auto) blocking(F&& f) {
  BlockedScope scope("rpc::blocking");
  return std::forward<F>(f)();
}

}  // namespace tendril::rpc

TENDRIL_API_END
