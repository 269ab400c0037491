// The pool's half of Loop: slots, jobs and threads.
#include <pthread.h>

#include <algorithm>
#include <system_error>

#include "tendril/rpc/detail/loop.h"
#include "tendril/rpc/detail/signal_mask.h"
#include "tendril/rpc/detail/thread_state.h"
#include "tendril/rpc/detail/write_batch.h"
#include "tendril/rpc/error.h"

namespace tendril::rpc::detail {

namespace {
constexpr std::chrono::milliseconds kTick{1};
}

bool Loop::can_run_job_locked() const noexcept {
  return !queue_.empty() && active_ < options_.slots && resuming_.empty();
}

void Loop::start() {
  const std::lock_guard lock(mutex_);
  spawn_locked(false);
}

void Loop::post(std::unique_ptr<Job> job) {
  {
    const std::lock_guard lock(mutex_);
    if (!stopped_) {
      queue_.push(std::move(job));
      if (ThreadState::current().leading == this) {
        job_posted_ = true;  // the leader looks after it as soon as the callback has returned
        messages_since_job_ = 0;
        last_job_ = last_read_;
      } else if (can_run_job_locked()) {
        wake_worker_locked();
      }
      return;
    }
  }
  Job* const raw = job.get();
  raw->run(std::move(job));
}

/// Sees to it that some pool thread looks at queue and seat.
void Loop::wake_worker_locked() {
  if (arriving_ > 0) return;  // one is on its way, and wakes the next if there is more to do
  if (!idle_.empty()) {
    Worker& worker = *idle_.back();
    idle_.pop_back();
    worker.woken = true;
    ++arriving_;
    worker.wake.notify_one();
  } else if (static_cast<int>(workers_.size()) < options_.max_threads) {
    spawn_locked(false);
  } else if (seat_taken_) {
    interrupt_leader();
  }
}

/// Sees to it that a free seat is found by a pool thread within a tick.
void Loop::ensure_ticker_locked() {
  if (ticking_ || stopping_) return;
  if (!idle_.empty()) {
    ticking_ = true;
    idle_.front()->ticks = true;
    idle_.front()->wake.notify_one();
  } else if (static_cast<int>(workers_.size()) < options_.max_threads) {
    spawn_locked(true);
  }
}

void Loop::spawn_locked(bool ticks) {
  Worker& worker = workers_.emplace_back();
  worker.ticks = worker.stays_back = ticks;
  worker.woken = !ticks;
  if (ticks) ticking_ = true;
  if (!ticks) ++arriving_;
  const SignalMask mask;
  try {
    worker.thread = std::thread([this, &worker] { work(worker); });
  } catch (const std::system_error&) {
    if (ticks) ticking_ = false;
    if (!ticks) --arriving_;
    workers_.pop_back();
    if (workers_.empty()) throw;
    return;  // the system gives no more threads: those there are must do
  }
}

void Loop::work(Worker& self) {
  ThreadState::current().pool = this;
  set_current(this);
  pthread_setname_np(pthread_self(), options_.name.substr(0, 15).c_str());
  std::unique_lock lock(mutex_);
  if (self.woken) --arriving_;
  for (;;) {
    if (can_run_job_locked()) {
      run_next_job(lock);
      self.stays_back = false;
    } else if (stopping_) {
      break;  // whoever holds a slot goes on with the queue
    } else if (!seat_taken_ && !self.stays_back) {
      take_seat_locked();
      lead_in_pool(lock);
      self.stays_back = !job_posted_ && waiter_completed_;
      leave_seat_locked();
    } else {
      idle(self, lock);
    }
  }
}

void Loop::run_next_job(std::unique_lock<std::mutex>& lock) {
  std::unique_ptr<Job> job = queue_.pop();
  ++active_;
  if (!job->is_short()) {
    if (!seat_taken_ || can_run_job_locked()) wake_worker_locked();
  } else if (!seat_taken_) {
    ensure_ticker_locked();
  }
  // Replies to requests that were read together leave together, unless that would delay one.
  WriteBatch& batch = WriteBatch::current();
  const bool hold = job->is_short() && !queue_.empty() && queue_.front()->is_short();
  lock.unlock();
  batch.hold(hold);
  ThreadState& thread = ThreadState::current();
  thread.has_slot = true;
  Job* const raw = job.get();
  raw->run(std::move(job));
  thread.has_slot = false;
  if (!hold) batch.flush();
  lock.lock();
  --active_;
  slot_released_locked();
  if (hold && !can_run_job_locked()) {
    lock.unlock();
    batch.flush();
    lock.lock();
  }
}

void Loop::slot_released_locked() {
  if (resuming_.empty() || active_ >= options_.slots) return;
  Resuming& next = resuming_.front();
  resuming_.pop_front();
  ++active_;
  next.granted = true;
  next.wake.notify_one();
}

void Loop::give_slot(const char* what) {
  WriteBatch::current().flush();
  const std::lock_guard lock(mutex_);
  // One thread must be left to go on with the queue and the sockets.
  if (blocked_ + 2 > options_.max_threads) {
    throw UsageError(std::string(what) + ": " + std::to_string(blocked_) + " of at most " +
                     std::to_string(options_.max_threads) +
                     " pool threads are blocked in handlers already (max_threads); write the handler as a coroutine "
                     "(Task<T>, co_await), which holds no thread while it waits");
  }
  ++blocked_;
  --active_;
  ThreadState::current().has_slot = false;
  slot_released_locked();
  if (can_run_job_locked()) wake_worker_locked();
  if (!seat_taken_) ensure_ticker_locked();
}

void Loop::take_slot() {
  std::unique_lock lock(mutex_);
  if (active_ < options_.slots && resuming_.empty()) {
    ++active_;
  } else {
    Resuming self;
    resuming_.push_back(self);
    // No deadline: slots are given back by handlers that end or wait (docs/rpc.md).
    self.wake.wait(lock, [&] { return self.granted; });
  }
  --blocked_;
  ThreadState::current().has_slot = true;
}

void Loop::idle(Worker& self, std::unique_lock<std::mutex>& lock) {
  self.woken = false;
  self.stays_back = false;
  idle_.push_back(&self);
  if (!seat_taken_ && !ticking_ && !stopping_) self.ticks = ticking_ = true;
  uint64_t epoch = seat_epoch_;
  while (!self.woken && !stopping_) {
    if (!self.ticks) {
      self.wake.wait(lock);
      epoch = seat_epoch_;
      continue;
    }
    if (self.wake.wait_for(lock, kTick) == std::cv_status::no_timeout) continue;
    if (seat_taken_) {
      self.ticks = ticking_ = false;  // whoever leaves the seat wakes a ticker again
    } else if (epoch != seat_epoch_) {
      epoch = seat_epoch_;
    } else {
      break;  // nobody has come for a whole tick
    }
  }
  if (self.ticks) self.ticks = ticking_ = false;
  if (self.woken) --arriving_;
  if (const auto at = std::find(idle_.begin(), idle_.end(), &self); at != idle_.end()) idle_.erase(at);
}

void Loop::stop() {
  std::unique_lock lock(mutex_);
  if (stopped_ || (stopping_ && workers_.empty())) return;
  stopping_ = true;
  for (Worker& worker : workers_) worker.wake.notify_one();
  if (seat_taken_) interrupt_leader();
  if (!queue_.empty() && workers_.empty()) spawn_locked(false);
  std::list<Worker> ending;
  // Running handlers end in their own time; nothing can end them for us.
  while (!workers_.empty()) {
    ending.splice(ending.end(), workers_, workers_.begin());
    lock.unlock();
    ending.back().thread.join();
    lock.lock();
  }
  seat_free_.wait(lock, [&] { return !seat_taken_; });  // waiters leave when stopping
  stopped_ = true;
  take_seat_locked();
  lock.unlock();
  {
    const IoCallbackScope io_callback;
    while (io_.poll() > 0) {
    }
  }
  lock.lock();
  leave_seat_locked();
  JobQueue rest;
  while (!queue_.empty()) rest.push(queue_.pop());
  lock.unlock();
  while (!rest.empty()) {
    std::unique_ptr<Job> job = rest.pop();
    Job* const raw = job.get();
    raw->run(std::move(job));
  }
}

Loop::Gauges Loop::gauges() const {
  const std::lock_guard lock(mutex_);
  return {queue_.size(), static_cast<std::size_t>(active_), workers_.size(), static_cast<std::size_t>(blocked_)};
}

}  // namespace tendril::rpc::detail
