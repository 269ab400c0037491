// The pool's half of Loop: slots, jobs and threads. How it ends is in pool_ending.cpp.
#include <pthread.h>

#include <algorithm>
#include <system_error>

#include "tendril/rpc/error.h"
#include "tendril/rpc/threads/loop.h"
#include "tendril/rpc/threads/signal_mask.h"
#include "tendril/rpc/threads/thread_state.h"

namespace tendril::rpc::detail {

namespace {
constexpr std::chrono::milliseconds kTick{1};
}

/// How many threads may be in handlers, waiting ones included, where a job of this level is to start. One is always
/// left for the sockets, and above that some for calls that handlers elsewhere, or here, wait for: else handlers that
/// wait for calls back could take all threads, and wait for ever.
int Loop::thread_limit(int level) const noexcept {
  const int kept = std::clamp(options_.max_threads / 8, 1, 2 * Job::kContinuation);
  const int open = level == 0 ? 0 : std::min(kept, kept / 2 + level);
  return options_.max_threads - 1 - kept + open;
}

/// The lowest level of which a job may start.
int Loop::lowest_level_locked() const noexcept {
  const int threads = active_ + blocked_ + releasing_;
  int level = 0;
  while (level <= Job::kContinuation && threads >= thread_limit(level)) ++level;
  return level;
}

bool Loop::can_run_handler_locked() const noexcept {
  return !queue_.empty() && active_ < options_.slots && queue_.any(lowest_level_locked());
}

/// Where a handler of level 0 might start: destructors that wait must leave the threads that are kept for nested calls,
/// which may be what they wait for.
bool Loop::can_run_release_locked() const noexcept {
  return !releases_.empty() && releasing_ == 0 && lowest_level_locked() == 0;
}

/// Destructors first wait for a poll interval: they are in no hurry, and threads woken for single ones would cost more
/// than they.
bool Loop::can_run_job_locked() const noexcept {
  return can_run_handler_locked() || ((releases_due_ || phase_ != Phase::running) && can_run_release_locked());
}

/// One of those that may run, of which there is one. Turn about, so that neither kind is kept waiting by the other.
std::unique_ptr<Job> Loop::take_job_locked(Slot& slot) noexcept {
  ++taken_;
  const bool handler = can_run_handler_locked();
  if (!handler || (release_next_ && releases_due_ && can_run_release_locked())) {
    release_next_ = false;
    slot = Slot::release;
    ++releasing_;
    std::unique_ptr<Job> job = releases_.pop();
    releases_due_ = releases_due_ && !releases_.empty();
    return job;
  }
  release_next_ = true;
  slot = Slot::handler;
  std::unique_ptr<Job> job = queue_.pop(lowest_level_locked());
  ++active_;
  return job;
}

void Loop::start() {
  const std::lock_guard lock(mutex_);
  spawn_locked(false);
}

void Loop::post(std::unique_ptr<Job> job) {
  {
    const std::lock_guard lock(mutex_);
    const bool leads = ThreadState::current().leading == this;  // also at the end: it must not block
    if (phase_ != Phase::stopped || leads) {
      queue_.push(std::move(job));
      if (leads) {
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

void Loop::post_release(std::unique_ptr<Job> job) {
  const std::lock_guard lock(mutex_);
  // Once stopped it ends here, on the calling thread, unless that must not block.
  if (phase_ == Phase::stopped && ThreadState::current().leading != this) return;
  releases_.push(std::move(job));
  ensure_poller_locked();
}

/// Sees to it that some pool thread looks at the queue and for a leader.
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
  } else if (has_leader_) {
    interrupt_leader();
  }
}

/// Sees to it that a pool thread finds that nobody leads, or a job that nobody takes, within a poll interval or two.
void Loop::ensure_poller_locked() {
  if (phase_ != Phase::running) {  // nobody looks for a leader, so nobody polls
    if (can_run_job_locked()) wake_worker_locked();
    return;
  }
  if (polling_) return;
  if (!idle_.empty()) {
    polling_ = true;
    idle_.front()->polls = true;
    idle_.front()->wake.notify_one();
  } else if (static_cast<int>(workers_.size()) < options_.max_threads) {
    spawn_locked(true);
  } else if (has_leader_ && can_run_job_locked()) {
    interrupt_leader();
  }
}

void Loop::stop_polling_locked(Worker& self) noexcept {
  if (self.polls) self.polls = polling_ = false;
}

void Loop::spawn_locked(bool polls) {
  Worker& worker = workers_.emplace_back();
  worker.polls = worker.stays_back = polls;
  worker.woken = !polls;
  if (polls) polling_ = true;
  if (!polls) ++arriving_;
  const SignalMask mask;
  try {
    worker.thread = std::thread([this, &worker] { work(worker); });
    if (phase_ == Phase::stopped) {  // a job for which those that are left to themselves may wait
      worker.keeps = Ref<Executor>(this);
      worker.thread.detach();
    }
  } catch (const std::system_error&) {
    if (polls) polling_ = false;
    if (!polls) --arriving_;
    workers_.pop_back();
    if (workers_.empty() && phase_ != Phase::stopped) throw;
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
    if (phase_ == Phase::stopped && !self.keeps) break;  // somebody joins it, and must not wait for a job
    if (can_run_job_locked()) {
      stop_polling_locked(self);
      run_next_job(self, lock);
      self.stays_back = false;
    } else if (phase_ == Phase::stopped) {
      break;
    } else if (phase_ == Phase::running && !has_leader_ && !self.stays_back) {
      stop_polling_locked(self);
      start_leading_locked();
      self.leads = true;
      lead_in_pool(lock);
      self.stays_back = !job_posted_ && waiter_completed_;
      stop_leading(lock);
      self.leads = false;
    } else {
      idle(self, lock);
    }
  }
  leave_pool(self, lock);
}

void Loop::run_next_job(Worker& self, std::unique_lock<std::mutex>& lock) {
  Slot slot = Slot::none;
  std::unique_ptr<Job> job = take_job_locked(slot);
  if ((!has_leader_ && phase_ == Phase::running) || can_run_job_locked()) {
    if (job->is_short()) {
      ensure_poller_locked();
    } else {
      wake_worker_locked();
    }
  }
  self.runs = slot;
  self.origin = job->origin();
  self.since = Clock::now();
  lock.unlock();
  ThreadState& thread = ThreadState::current();
  thread.slot = slot;
  Job* const raw = job.get();
  raw->run(std::move(job));
  thread.slot = Slot::none;
  lock.lock();
  self.runs = Slot::none;
  --(slot == Slot::handler ? active_ : releasing_);
  if (phase_ != Phase::running) rested_.notify_all();
}

void Loop::give_slot() {
  const std::lock_guard lock(mutex_);
  ++blocked_;
  --(ThreadState::current().slot == Slot::handler ? active_ : releasing_);
  ThreadState::current().slot = Slot::none;
  if (can_run_job_locked()) wake_worker_locked();
  if (!has_leader_) ensure_poller_locked();
}

/// At once: whoever holds a slot may need what this thread holds, a mutex say. So more handlers than slots may run for
/// a while; no new one starts meanwhile.
void Loop::take_slot(Slot slot) {
  const std::lock_guard lock(mutex_);
  --blocked_;
  ++(slot == Slot::handler ? active_ : releasing_);
  ThreadState::current().slot = slot;
}

void Loop::idle(Worker& self, std::unique_lock<std::mutex>& lock) {
  self.woken = false;
  self.stays_back = false;
  idle_.push_back(&self);
  if ((!has_leader_ || !releases_.empty()) && !polling_ && phase_ == Phase::running) self.polls = polling_ = true;
  uint64_t epoch = leader_epoch_, taken = taken_;
  while (!self.woken && phase_ != Phase::stopped) {
    if (!self.polls) {
      self.wake.wait(lock);
      epoch = leader_epoch_;
      taken = taken_;
      continue;
    }
    if (self.wake.wait_for(lock, kTick) == std::cv_status::no_timeout) continue;
    releases_due_ = !releases_.empty();
    const bool job_waits = can_run_job_locked();
    if ((job_waits && taken == taken_) || (!has_leader_ && epoch == leader_epoch_)) break;  // for a whole interval
    if (has_leader_ && !job_waits) stop_polling_locked(self);  // whoever changes that wakes a poller again
    epoch = leader_epoch_;
    taken = taken_;
  }
  stop_polling_locked(self);
  if (self.woken) --arriving_;
  if (const auto at = std::find(idle_.begin(), idle_.end(), &self); at != idle_.end()) idle_.erase(at);
}

std::string Loop::held_back() const {
  const std::lock_guard lock(mutex_);
  if (queue_.empty() || active_ >= options_.slots || can_run_handler_locked()) return "";
  return "; at this worker " + std::to_string(blocked_) + " handlers wait, each on a thread of at most " +
         std::to_string(options_.max_threads) + " (max_threads), and keep " + std::to_string(queue_.size()) +
         " calls from starting: write them as coroutines (Task<T>, co_await), which hold no thread while they wait";
}

std::vector<CallOrigin> Loop::queued() const {
  const std::lock_guard lock(mutex_);
  std::vector<CallOrigin> origins;
  origins.reserve(queue_.size());
  queue_.for_each([&](const Job& job) { origins.push_back(job.origin()); });
  return origins;
}

Loop::Gauges Loop::gauges() const {
  const std::lock_guard lock(mutex_);
  return {queue_.size() + releases_.size(), static_cast<std::size_t>(active_ + releasing_), workers_.size(),
          static_cast<std::size_t>(blocked_), taken_};
}

}  // namespace tendril::rpc::detail
