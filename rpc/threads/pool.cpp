// The pool's half of Loop: its threads, and how each chooses its next task. pool_ending.cpp ends them.
#include <pthread.h>

#include <algorithm>

#include "tendril/rpc/error.h"
#include "tendril/rpc/system/mutex.h"
#include "tendril/rpc/system/thread_state.h"
#include "tendril/rpc/threads/loop.h"

namespace tendril::rpc::detail {

namespace {
constexpr std::chrono::milliseconds kPollInterval{1};
/// A job that is likely to take less runs before a thread is woken for the others that wait: waking one takes as long.
constexpr std::chrono::microseconds kShort{20};
/// If no other job waits, no thread is woken to lead while a job that is likely to take less runs: messages may stay
/// unread for this long.
constexpr std::chrono::microseconds kMaxUnattended{40};
/// The longest time for which frames sent by a series of short handlers are held back.
constexpr std::chrono::microseconds kMostHeld{100};
}  // namespace

void Loop::start() {
  const std::lock_guard lock(mutex_);
  spawn_locked(false);
}

void Loop::post(std::unique_ptr<Job> job) {
  {
    const std::lock_guard lock(mutex_);
    const bool leads = ThreadState::current().leading == this;  // even at the end: a leader must not block
    if (phase_ != Phase::stopped || leads) {
      slots_.push(std::move(job));
      if (leads) {
        leadership_.note_job();
      } else if (slots_.can_run()) {
        wake_worker_locked();
      }
      return;
    }
  }
  Job* const raw = job.get();
  raw->run(std::move(job));
}

void Loop::post_release(std::unique_ptr<Job> job) {
  const std::lock_guard lock(mutex_);
  // Once the loop is stopped, the job is destroyed here, on the calling thread, unless that thread must not block.
  if (phase_ == Phase::stopped && ThreadState::current().leading != this) return;
  slots_.push_release(std::move(job));
  ensure_poller_locked();
}

/// Makes sure that a pool thread checks the queue and whether the loop has a leader. Returns the condition that the
/// caller must notify, or null.
Condition* Loop::worker_to_wake_locked() {
  if (arriving_ > 0) return nullptr;  // one is already waking up, and wakes the next if there is more to do
  if (!idle_.empty()) {
    Worker& worker = *idle_.back();
    idle_.pop_back();
    worker.woken = true;
    ++arriving_;
    return &worker.wake;
  }
  if (static_cast<int>(workers_.size()) < options_.max_threads) {
    spawn_locked(false);
  } else if (leadership_.taken()) {
    reactor_.interrupt();
  }
  return nullptr;
}

/// Likewise, makes sure that a pool thread notices a missing leader or a waiting job within a poll interval or two.
Condition* Loop::poller_to_wake_locked() {
  if (phase_ != Phase::running) {  // no leader is needed, so no thread polls
    return slots_.can_run() ? worker_to_wake_locked() : nullptr;
  }
  if (has_poller_) return nullptr;
  if (!idle_.empty()) {
    has_poller_ = true;
    idle_.front()->polls = true;
    return &idle_.front()->wake;
  }
  if (static_cast<int>(workers_.size()) < options_.max_threads) {
    spawn_locked(true);
  } else if (leadership_.taken() && slots_.can_run()) {
    reactor_.interrupt();
  }
  return nullptr;
}

void Loop::stop_polling_locked(Worker& self) noexcept {
  if (self.polls) self.polls = has_poller_ = false;
}

void Loop::spawn_locked(bool polls) {
  const std::size_t before = workers_.size();
  try {
    Worker& worker = workers_.emplace_back();
    worker.polls = worker.skips_leading = polls;
    worker.woken = !polls;
    if (polls) has_poller_ = true;
    if (!polls) ++arriving_;
    worker.thread = Thread(options_.name, [this, &worker] { work(worker); });
    if (phase_ == Phase::stopped) {  // detached threads may wait for the job
      worker.keeps = Ref<Executor>(this);
      worker.thread.detach();
    }
  } catch (const std::exception&) {  // no more threads, or no memory
    if (workers_.size() > before) {
      if (polls) has_poller_ = false;
      if (!polls) --arriving_;
      workers_.pop_back();
    }
    if (workers_.empty() && phase_ != Phase::stopped) throw;  // otherwise the existing threads must suffice
  }
}

void Loop::work(Worker& self) {
  ThreadState::current().pool = this;
  set_current(this);
  // Processes that handlers start inherit the signal mask. The thread that started this one may have a different mask.
  pthread_sigmask(SIG_SETMASK, &blocked_, nullptr);
  std::unique_lock lock(mutex_);
  pthread_getcpuclockid(pthread_self(), &self.processor_time);
  if (self.woken) --arriving_;
  for (;;) {
    if (phase_ == Phase::stopped && !self.keeps) break;  // it is being joined, which must not wait for a job
    if (slots_.can_run()) {
      stop_polling_locked(self);
      run_next_job(self, lock);
      self.skips_leading = false;
    } else if (phase_ == Phase::stopped) {
      break;
    } else if (held_sends_.any()) {
      lock.unlock();
      held_sends_.flush();
      lock.lock();
    } else if (phase_ == Phase::running && !leadership_.taken() && !self.skips_leading) {
      stop_polling_locked(self);
      start_leading_locked();
      self.leads = true;
      if (slots_.has_releases()) ensure_poller_locked();  // this thread may have been the one that polled for them
      lead_in_pool(lock);
      self.skips_leading = !leadership_.job_posted() && leadership_.waiter_completed();
      stop_leading(lock);
      self.leads = false;
    } else {
      idle(self, lock);
    }
  }
  leave_pool(self, lock);
}

void Loop::run_next_job(Worker& self, std::unique_lock<Mutex>& lock) {
  Slot slot = Slot::none;
  std::unique_ptr<Job> job = slots_.take(slot);
  const std::chrono::nanoseconds likely_time = job->likely_time();
  const bool brief = likely_time < kShort;
  // Continuations, such as parts of a backward pass, send at once: another thread or worker waits for them.
  const bool more_follows = brief && job->level() < Job::kContinuation && slots_.handlers_wait();
  Condition* due = nullptr;
  if ((!leadership_.taken() && phase_ == Phase::running) || slots_.can_run()) {
    due =
        likely_time < (slots_.can_run() ? kShort : kMaxUnattended) ? poller_to_wake_locked() : worker_to_wake_locked();
  } else if (slots_.has_releases()) {
    due = poller_to_wake_locked();  // this thread may have been the one that polled for them
  }
  self.runs = slot;
  self.origin = job->origin();
  self.since = Clock::now();
  lock.unlock();
  notify(due);  // not earlier: on one core the woken thread would run at once, only to wait for the mutex
  ThreadState& thread = ThreadState::current();
  if (held_sends_.any() && (!brief || self.since - self.held_since > kMostHeld)) held_sends_.flush();
  if (!held_sends_.any()) self.held_since = self.since;
  thread.slot = slot;
  thread.more_follows = more_follows;
  Job* const raw = job.get();
  raw->run(std::move(job));
  thread.slot = Slot::none;
  thread.more_follows = false;
  lock.lock();
  self.runs = Slot::none;
  slots_.ended(slot);
  if (phase_ != Phase::running) work_ended_.notify_all();
}

void Loop::give_slot() {
  ThreadState& thread = ThreadState::current();
  thread.more_follows = false;
  held_sends_.flush();
  const std::lock_guard lock(mutex_);
  slots_.give_back(std::exchange(thread.slot, Slot::none));
  if (slots_.can_run()) wake_worker_locked();
  if (!leadership_.taken()) ensure_poller_locked();
}

void Loop::take_slot(Slot slot) {
  const std::lock_guard lock(mutex_);
  slots_.take_back(slot);
  ThreadState::current().slot = slot;
}

void Loop::idle(Worker& self, std::unique_lock<Mutex>& lock) {
  self.woken = false;
  self.skips_leading = false;
  idle_.push_back(&self);
  if ((!leadership_.taken() || slots_.has_releases()) && !has_poller_ && phase_ == Phase::running)
    self.polls = has_poller_ = true;
  uint64_t epoch = leadership_.epoch(), begun = slots_.begun();
  while (!self.woken && phase_ != Phase::stopped) {
    if (!self.polls) {
      self.wake.wait(lock);
      epoch = leadership_.epoch();
      begun = slots_.begun();
      continue;
    }
    if (self.wake.wait_until(lock, Clock::now() + kPollInterval)) continue;
    slots_.releases_are_due();
    const bool job_waits = slots_.can_run();
    if ((job_waits && begun == slots_.begun()) || (!leadership_.taken() && epoch == leadership_.epoch()))
      break;                                                           // nothing changed for a whole interval
    if (leadership_.taken() && !job_waits) stop_polling_locked(self);  // a change of either wakes a poller again
    epoch = leadership_.epoch();
    begun = slots_.begun();
  }
  stop_polling_locked(self);
  if (self.woken) --arriving_;
  if (const auto at = std::find(idle_.begin(), idle_.end(), &self); at != idle_.end()) idle_.erase(at);
}

std::string Loop::held_back() const {
  const std::lock_guard lock(mutex_);
  return slots_.held_back();
}

std::vector<CallOrigin> Loop::queued() const {
  const std::lock_guard lock(mutex_);
  return slots_.queued_origins();
}

Loop::Gauges Loop::gauges() const {
  const std::lock_guard lock(mutex_);
  return {slots_.queued(), static_cast<std::size_t>(slots_.running()), workers_.size(),
          static_cast<std::size_t>(slots_.blocked()), slots_.begun()};
}

}  // namespace tendril::rpc::detail
