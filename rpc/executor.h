#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

#include "tendril/rpc/call_context.h"
#include "tendril/rpc/system/run_time.h"
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

/// A unit of work for a pool thread. The poster derives from it, so that the job takes a single allocation.
class Job {
 public:
  virtual ~Job() = default;
  /// Runs the job. `self` owns this job: keep it to continue later, or let it be destroyed.
  virtual void run(std::unique_ptr<Job> self) noexcept = 0;
  /// The job's expected run time; max() if unknown. If it is short, no other thread is woken to lead before the job
  /// runs (docs/rpc.md, rule 4). Called on any thread of the pool, under the pool's mutex.
  virtual std::chrono::nanoseconds likely_time() const noexcept { return std::chrono::nanoseconds::max(); }
  /// The highest level, that of a job that continues work which has already begun.
  static constexpr int kContinuation = 16;
  /// The level of the job, 0 to kContinuation. For a call it is the length of the chain of handlers that wait for it.
  /// The pool reserves threads for higher levels (docs/rpc.md).
  virtual int level() const noexcept { return kContinuation; }
  /// The source of the job. Sources take turns; a job with a null source takes a turn alone.
  virtual detail::JobSource* source() const noexcept { return nullptr; }
  /// The handler that this job runs or continues.
  virtual CallOrigin origin() const noexcept { return {}; }

 private:
  friend class detail::JobQueue;
  Job* next_ = nullptr;
  uint64_t turn_ = 0;  // of a job without a source
};

/// Runs handlers and resumed coroutines, and lets threads wait for futures. Each agent has one. Thread-safe; outlives
/// its agent as long as a reference to it is held.
class Executor : public RefCounted {
 public:
  static void destroy(Executor* executor) noexcept { delete executor; }  ///< for Ref
  virtual ~Executor() = default;

  /// Runs the job on a pool thread, under a slot. After the agent's shutdown the job runs at once on the calling
  /// thread, unless that thread drives this executor's I/O.
  virtual void post(std::unique_ptr<Job> job) = 0;
  /// Posts a job at low priority that takes no handler's slot. Meant for destructors of users' objects. Such jobs run
  /// one at a time, and only when a handler of level 0 could start.
  virtual void post_release(std::unique_ptr<Job> job) { post(std::move(job)); }
  /// Returns true when `future` is done, or false when the deadline has passed. Meanwhile the calling thread drives I/O
  /// if no other thread does.
  virtual bool wait(FutureCore& future, Clock::time_point deadline) = 0;

  /// Counts an error of its agent's calls that was never read (unread_error.h).
  void note_unread_error() noexcept { unread_errors_.fetch_add(1, std::memory_order_relaxed); }
  /// Number of errors of calls that had not been read when the last future of the call was destroyed.
  uint64_t unread_errors() const noexcept { return unread_errors_.load(std::memory_order_relaxed); }

  /// The executor whose pool this thread belongs to; null elsewhere.
  static Executor* current() noexcept;

 protected:
  static void set_current(Executor* executor) noexcept;  ///< for the calling thread; null: none

 private:
  std::atomic<uint64_t> unread_errors_{0};
};

/// Posts a callable, which runs with the caller's CallContext. `run_time`, if given, records the run times of such
/// callables. It must live as long as the job, for example because `f` captures its owner and does not move it away.
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

/// Runs `f`, which blocks in a way that the library cannot see (a mutex, a sleep, other I/O). Releases the pool's slot
/// meanwhile, so that a single worker thread still suffices. Outside handlers it just runs `f`.
template <class F>
decltype(auto) blocking(F&& f);

/// Releases this pool thread's slot during its lifetime; `blocking` and `wait` use it. Afterwards the thread continues
/// at once, whether or not a slot is free. Throws UsageError if the thread is in an I/O callback.
class BlockedScope {
 public:
  explicit BlockedScope(const char* what);
  ~BlockedScope();
  BlockedScope(const BlockedScope&) = delete;
  BlockedScope& operator=(const BlockedScope&) = delete;

 private:
  detail::Loop* pool_;  // null outside a pool
  detail::Slot slot_;   // the released slot
};

template <class F>
decltype(auto) blocking(F&& f) {
  BlockedScope scope("rpc::blocking");
  return std::forward<F>(f)();
}

}  // namespace tendril::rpc

TENDRIL_API_END
