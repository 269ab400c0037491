// How a Loop ends: running, stopping, stopped.
#include <algorithm>

#include "tendril/rpc/system/mutex.h"
#include "tendril/rpc/system/thread_state.h"
#include "tendril/rpc/threads/loop.h"

namespace tendril::rpc::detail {

/// Whether a stopping loop has finished: nothing runs, and nothing queued can start new work.
bool Loop::at_rest_locked() const noexcept { return slots_.at_rest() && !leadership_.taken(); }

bool Loop::end_by(Clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  if (phase_ == Phase::running) {
    phase_ = Phase::stopping;
    slots_.stop_delaying();
    if (leadership_.taken()) reactor_.interrupt();  // a waiter stops leading, too
    if (slots_.can_run()) wake_worker_locked();
  }
  const auto at_rest = [this] { return at_rest_locked(); };
  while (phase_ != Phase::stopped) {
    if (!leadership_.taken()) run_pending_io(lock);  // sockets are closed even while handlers still run
    if (at_rest_locked()) {
      stop_locked();  // the mutex was held throughout: nothing can have been posted in between
    } else if (!work_ended_.wait_until(lock, deadline, at_rest)) {  // running handlers cannot be stopped
      return false;
    }
  }
  return true;
}

void Loop::stop_locked() noexcept {
  phase_ = Phase::stopped;
  slots_.stop_delaying();
  for (Worker& worker : workers_) worker.wake.notify_one();
}

std::vector<Loop::Running> Loop::stop() {
  std::unique_lock lock(mutex_);
  if (phase_ != Phase::stopped) {
    stop_locked();
    if (!leadership_.taken()) run_pending_io(lock);
  }
  std::vector<Running> left = unended_locked();
  std::list<Worker> ending;
  for (auto at = workers_.begin(); at != workers_.end();) {
    const auto worker = at++;
    if (worker->keeps) continue;
    if (worker->runs == Slot::none && !worker->leads) {
      ending.splice(ending.end(), workers_, worker);
    } else {
      worker->keeps = Ref<Executor>(this);
      worker->thread.detach();
    }
  }
  lock.unlock();
  for (Worker& worker : ending) worker.thread.join();
  lock.lock();
  ended_.splice(ended_.end(), ending);
  // Queued jobs do not run on this thread: they may take long, and the deadline has passed. If no slot is free for a
  // job, the thread that releases one starts it.
  if (slots_.can_run()) wake_worker_locked();
  return left;
}

/// Runs last on a pool thread. A detached thread adds itself to `ended_`, and may drop the last reference to the loop.
void Loop::leave_pool(Worker& self, std::unique_lock<Mutex>& lock) {
  if (self.keeps && !leadership_.taken()) run_pending_io(lock);  // runs the callbacks that its job left behind
  const Ref<Executor> kept = std::move(self.keeps);
  if (kept) {
    const auto own =
        std::find_if(workers_.begin(), workers_.end(), [&](const Worker& worker) { return &worker == &self; });
    ended_.splice(ended_.end(), workers_, own);
  }
  ThreadState::current().pool = nullptr;  // destructors of the thread's objects run after this
  set_current(nullptr);
  lock.unlock();  // before `kept` is destroyed
}

/// Leads once, to run pending I/O callbacks. Called if no thread leads and the loop is stopping or stopped.
void Loop::run_pending_io(std::unique_lock<Mutex>& lock) {
  start_leading_locked();
  stop_leading(lock);
  if (slots_.can_run()) wake_worker_locked();
}

/// Runs the pending I/O callbacks. This thread leads.
void Loop::poll_io(std::unique_lock<Mutex>& lock) {
  lock.unlock();
  held_sends_.flush();
  {
    const IoCallbackScope io_callback;
    while (reactor_.poll_one()) {
    }
  }
  lock.lock();
}

std::vector<Loop::Running> Loop::running_locked() const {
  std::vector<Running> list;
  const Clock::time_point now = Clock::now();
  for (const Worker& worker : workers_) {
    if (worker.runs != Slot::none) list.push_back({worker.runs, worker.origin, now - worker.since});
  }
  return list;
}

std::vector<Loop::Running> Loop::unended_locked() const {
  std::vector<Running> list = running_locked();
  if (leadership_.taken()) list.push_back({Slot::none, {}, {}});
  return list;
}

std::vector<Loop::Running> Loop::running() const {
  const std::lock_guard lock(mutex_);
  return running_locked();
}

std::vector<Loop::Running> Loop::unended() const {
  const std::lock_guard lock(mutex_);
  return unended_locked();
}

}  // namespace tendril::rpc::detail
