#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "tendril/rpc/executor.h"
#include "tendril/rpc/future.h"
#include "tendril/rpc/system/mutex.h"
#include "tendril/rpc/system/thread.h"

namespace tendril::dist::detail {

/// Runs operations one after the other: synchronous ones on the calling thread, others on the queue's thread. A
/// coroutine that awaits an asynchronous operation resumes on the executor, because on the queue's thread it could not
/// wait for the next operation.
class CollectiveQueue {
 public:
  explicit CollectiveQueue(rpc::Executor& executor) : executor_(&executor) {}
  ~CollectiveQueue() {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) rpc::blocking([&] { thread_.join(); });
  }

  /// Runs `operation` after all operations that were queued before. Waits as long as they take; each has a deadline.
  template <class F>
  auto run(F operation) {
    rpc::blocking([&] {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return jobs_.empty() && !busy_; });
      busy_ = true;
    });
    const Turn turn(*this);
    return operation();
  }
  rpc::Future<void> post(std::function<void()> operation) {
    auto promise = std::make_shared<rpc::Promise<void>>(executor_.get());
    const std::lock_guard lock(mutex_);
    // Before the job is queued: if no thread can be created, no job may be left that others would wait for.
    // The thread inherits the caller's signal mask, because the user's continuations may run on it.
    if (!thread_.joinable()) thread_ = rpc::detail::Thread("collectives", [this] { serve(); });
    jobs_.push_back({std::move(operation), promise});
    changed_.notify_all();
    return promise->future();
  }

 private:
  struct Job {
    std::function<void()> operation;
    std::shared_ptr<rpc::Promise<void>> promise;
  };
  struct Turn {
    explicit Turn(CollectiveQueue& of) : queue(of) {}
    ~Turn() {
      {
        const std::lock_guard lock(queue.mutex_);
        queue.busy_ = false;
      }
      queue.changed_.notify_all();
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    CollectiveQueue& queue;
  };

  void serve() {
    for (;;) {
      Job job;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return closed_ || (!jobs_.empty() && !busy_); });
        if (jobs_.empty()) return;
        job = std::move(jobs_.front());
        jobs_.pop_front();
        busy_ = true;
      }
      const Turn turn(*this);  // until the result is set
      try {
        job.operation();
      } catch (...) {
        job.promise->set_error(std::current_exception());
        continue;
      }
      job.promise->set_value();
    }
  }

  const Ref<rpc::Executor> executor_;
  rpc::detail::Mutex mutex_;
  rpc::detail::Condition changed_;
  std::deque<Job> jobs_;
  bool busy_ = false, closed_ = false;
  rpc::detail::Thread thread_;
};

}  // namespace tendril::dist::detail
