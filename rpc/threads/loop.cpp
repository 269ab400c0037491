#include "tendril/rpc/threads/loop.h"

#include <sched.h>

#include "tendril/rpc/error.h"
#include "tendril/rpc/system/mutex.h"
#include "tendril/rpc/system/thread_state.h"
#include "tendril/rpc/threads/release.h"
#include "tendril/rpc/threads/wakeup_cost.h"
#include "tendril/tensor/detail/switched_variable.h"

namespace tendril::rpc {

namespace {
thread_local Executor* current_executor = nullptr;
const auto current_executor_switched = tendril::detail::of_each_thread([]() -> auto& { return current_executor; });
}  // namespace

Executor* Executor::current() noexcept { return current_executor; }
void Executor::set_current(Executor* executor) noexcept { current_executor = executor; }

BlockedScope::BlockedScope(const char* what) : pool_(nullptr), slot_(detail::Slot::none) {
  const detail::ThreadState& thread = detail::ThreadState::current();
  if (thread.io_callbacks > 0) {
    throw UsageError(std::string(what) +
                     ": would block in an I/O callback (a continuation runs on the thread that completes its future); "
                     "attach a continuation or co_await instead");
  }
  if (thread.slot == detail::Slot::none) return;
  slot_ = thread.slot;
  pool_ = thread.pool;
  pool_->give_slot();
}

BlockedScope::~BlockedScope() {
  if (pool_) pool_->take_slot(slot_);
}

namespace detail {

namespace {
const auto thread_state_switched = tendril::detail::of_each_thread([]() -> auto& { return ThreadState::current(); });
}

bool in_io_callback() noexcept { return ThreadState::current().io_callbacks > 0; }

void release_in_pool(std::unique_ptr<Job> job, Executor* executor) noexcept {
  Executor* const pool = ThreadState::current().leading ? ThreadState::current().leading : executor;
  if (pool) pool->post_release(std::move(job));
}

namespace {

/// A leader polls for as long as this many wake-ups take. A wake-up costs more than the delay until the woken thread
/// runs: it also takes the waker's time and leaves caches cold. Chosen from 1, 2, 4 and 8 by measuring whole programs
/// (docs/benchmarks/rpc.md).
constexpr int kPolledCosts = 4;

/// The longest time that a leader polls; 0 if it never does.
std::chrono::nanoseconds polling_time(std::chrono::microseconds max_spin) {
  if (max_spin.count() == 0 || cores_to_use() == 0 || simulator != nullptr) return {};
  return std::min<std::chrono::nanoseconds>(max_spin, kPolledCosts * wakeup_cost());
}

sigset_t blocked_signals() noexcept {
  sigset_t blocked;
  ::sigemptyset(&blocked);
  ::pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
  return blocked;
}

}  // namespace

void Waiter::run(FutureCore&) noexcept {
  const bool this_thread_leads = ThreadState::current().leading == &loop_;
  if (this_thread_leads && leading) {  // this is the waiting thread itself
    done.store(true, std::memory_order_relaxed);
    return;
  }
  const std::lock_guard lock(loop_.mutex_);
  if (this_thread_leads) loop_.leadership_.note_waiter_completed();
  loop_.leadership_.leave(*this);
  done.store(true, std::memory_order_release);
  if (leading) {
    loop_.reactor_.interrupt();
  } else {
    wake.notify_one();
  }
}

Loop::Loop(LoopOptions options)
    : options_(std::move(options)),
      blocked_(blocked_signals()),
      spare_cores_(std::max(0, cores_to_use() - 2)),
      polling_(polling_time(options_.max_spin)),
      slots_(options_.slots, options_.max_threads) {}

Loop::~Loop() {
  end_by(Clock::time_point::max());
  (void)stop();
}

void Loop::start_leading_locked() noexcept {
  leadership_.take();
  ThreadState::current().leading = this;
  if (led_) leads_since_ = Clock::now();
}

void Loop::set_leading_callback(Led led) {
  const std::lock_guard lock(mutex_);
  led_ = std::move(led);
  leads_since_ = Clock::now();
}

/// Once the loop is stopping, no other leader follows, so the last one runs the callbacks that the reactor still holds.
/// Most are handlers of closed sockets, which keep links alive and, with them, the loop.
void Loop::stop_leading(std::unique_lock<Mutex>& lock) {
  if (phase_ != Phase::running) poll_io(lock);
  if (led_) led_(leads_since_, Clock::now());
  ThreadState::current().leading = nullptr;
  leadership_.release();
  if (phase_ != Phase::running) work_ended_.notify_all();
}

void Loop::hand_off_or_poll_locked() {
  if (!leadership_.hand_to_waiter()) ensure_poller_locked();
}

/// Jobs that compute need the cores, and so does the peer; jobs that sleep do not.
bool Loop::has_cores_to_poll(Clock::time_point now) {
  if (slots_.busy() <= spare_cores_) return true;
  int computing = 0;
  const std::lock_guard lock(mutex_);
  for (Worker& worker : workers_) {
    if (worker.runs == Slot::none || worker.thread.is_current()) continue;
    computing += worker.use.computes(worker.since, now, [&] {
      timespec used{};
      clock_gettime(worker.processor_time, &used);
      return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
    });
    if (computing > spare_cores_) return false;
  }
  return true;
}

/// Polls the reactor for as long as it pays. Returns whether it found something to do.
bool Loop::poll(Clock::time_point deadline) {
  const Clock::time_point start = Clock::now();
  const std::chrono::nanoseconds budget = polling_.budget(start);
  if (budget.count() == 0 || !has_cores_to_poll(start)) return false;
  Clock::time_point now = start;
  bool came = false;
  while (!came && now - start < budget && now < deadline) {
    sched_yield();  // the process that has to answer may need this core
    came = reactor_.poll_one();
    now = Clock::now();
  }
  polling_.polled(now, now - start, came);
  return came;
}

void Loop::run_some(Clock::time_point deadline) {
  const IoCallbackScope io_callback;
  if (polling_.possible() && poll(deadline)) return;
  reactor_.run_one(deadline);
}

/// Leads until the pool has work, or a waiter should lead instead. This thread leads and holds `lock`, on entry and on
/// return.
void Loop::lead_in_pool(std::unique_lock<Mutex>& lock) {
  for (;;) {
    lock.unlock();
    held_sends_.flush();
    bool look = false;
    while (!look && !leadership_.job_posted() && !leadership_.waiter_completed()) {
      run_some(Clock::time_point::max());
      look = reactor_.take_interrupt();
    }
    lock.lock();
    if (leadership_.job_posted() || phase_ != Phase::running || slots_.can_run()) return;
    // The waiter has left, and will lead during its next wait itself.
    if (leadership_.waiter_completed() && !leadership_.has_waiters() && !leadership_.work_comes_in()) return;
    leadership_.forget_waiter_completed();
  }
}

/// Leads, under the same conditions, until `waiter` is done or the pool has work. Returns false if the deadline passed.
bool Loop::lead_waiting(Waiter& waiter, Clock::time_point deadline, std::unique_lock<Mutex>& lock) {
  waiter.leading = true;
  bool in_time = true, leave = false;
  lock.unlock();
  held_sends_.flush();
  while (!waiter.done.load(std::memory_order_acquire) && !leadership_.job_posted() && !leave && in_time) {
    run_some(deadline);
    if (reactor_.take_interrupt()) {
      lock.lock();
      leave = phase_ != Phase::running || slots_.can_run();
      lock.unlock();
    }
    in_time = deadline == Clock::time_point::max() || Clock::now() < deadline;
  }
  lock.lock();
  waiter.leading = false;
  waiter.left_to_others = leave || leadership_.job_posted();
  return in_time || waiter.done.load(std::memory_order_relaxed);
}

bool Loop::wait(FutureCore& future, Clock::time_point deadline) {
  held_sends_.flush();
  Waiter waiter(*this);
  future.attach(waiter);
  std::unique_lock lock(mutex_);
  bool may_lead = true;
  bool in_time = true;
  while (!waiter.done.load(std::memory_order_acquire) && in_time) {
    if ((may_lead || waiter.next_leader) && !leadership_.taken() && phase_ == Phase::running) {
      waiter.next_leader = false;
      start_leading_locked();
      in_time = lead_waiting(waiter, deadline, lock);
      const bool hand_over = waiter.left_to_others && !waiter.done.load(std::memory_order_relaxed);
      stop_leading(lock);
      if (slots_.can_run()) wake_worker_locked();
      if (!hand_over || !slots_.can_run()) hand_off_or_poll_locked();
      may_lead = !hand_over;
      continue;
    }
    waiter.next_leader = false;
    leadership_.wait(waiter);
    if (!leadership_.taken()) ensure_poller_locked();
    in_time = waiter.wake.wait_until(lock, deadline,
                                     [&] { return waiter.done.load(std::memory_order_relaxed) || waiter.next_leader; });
    leadership_.leave(waiter);
  }
  // Leadership was handed to this waiter, which does not need it: its deadline has passed, or another thread has
  // completed its future. Pass leadership on.
  if (waiter.next_leader && !leadership_.taken()) hand_off_or_poll_locked();
  lock.unlock();
  if (waiter.done.load(std::memory_order_acquire)) return true;
  if (future.detach(waiter)) return false;
  // The callback is about to run on another thread, and uses this stack frame.
  lock.lock();
  waiter.wake.wait(lock, [&] { return waiter.done.load(std::memory_order_relaxed); });
  return true;
}

}  // namespace detail
}  // namespace tendril::rpc
