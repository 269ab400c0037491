// How a Loop ends: running, stopping, stopped.
#include "tendril/rpc/threads/loop.h"
#include "tendril/rpc/threads/thread_state.h"

namespace tendril::rpc::detail {

/// While stopping: nothing goes on, and nothing that is queued can set anything off.
bool Loop::at_rest_locked() const noexcept {
  return active_ + blocked_ + releasing_ == 0 && queue_.empty() && releases_.empty() && !has_leader_;
}

bool Loop::end_by(Clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  if (phase_ == Phase::running) {
    phase_ = Phase::stopping;
    if (has_leader_) interrupt_leader();  // a waiter gives up the lead too
    if (can_run_job_locked()) wake_worker_locked();
  }
  const auto at_rest = [this] { return at_rest_locked(); };
  while (phase_ != Phase::stopped) {
    if (!has_leader_) look_at_io(lock);  // sockets are closed also while handlers go on
    if (at_rest_locked()) {
      stop_locked();  // without letting go of the mutex: nothing can be posted in between
    } else if (deadline == Clock::time_point::max()) {
      // Running handlers end in their own time; nothing can end them for us.
      rested_.wait(lock, at_rest);
    } else if (!rested_.wait_until(lock, deadline, at_rest)) {
      return false;
    }
  }
  return true;
}

void Loop::stop_locked() noexcept {
  phase_ = Phase::stopped;
  for (Worker& worker : workers_) worker.wake.notify_one();
}

std::vector<Loop::Running> Loop::stop() {
  std::unique_lock lock(mutex_);
  if (phase_ != Phase::stopped) {
    stop_locked();
    if (!has_leader_) look_at_io(lock);
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
  // Not on this thread: it is not known how long they take, and the time is up. Those for which no slot is free are
  // begun by whoever gives one back.
  if (can_run_job_locked()) wake_worker_locked();
  return left;
}

/// The last of a pool thread. One that nobody joins takes itself off the list, and the loop may go with it.
void Loop::leave_pool(Worker& self, std::unique_lock<std::mutex>& lock) {
  if (self.keeps && !has_leader_) look_at_io(lock);  // what its function has left there
  const Ref<Executor> kept = std::move(self.keeps);
  if (kept) workers_.remove_if([&](const Worker& worker) { return &worker == &self; });
  ThreadState::current().pool = nullptr;  // destructors of the thread's own objects are yet to come
  set_current(nullptr);
  lock.unlock();  // before `kept` goes
}

/// Nobody leads, and the end has begun.
void Loop::look_at_io(std::unique_lock<std::mutex>& lock) {
  start_leading_locked();
  stop_leading(lock);
  if (can_run_job_locked()) wake_worker_locked();
}

/// This thread leads.
void Loop::poll_io(std::unique_lock<std::mutex>& lock) {
  lock.unlock();
  {
    const IoCallbackScope io_callback;
    while (io_.poll() > 0) {
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
  if (has_leader_) list.push_back({Slot::none, {}, {}});
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
