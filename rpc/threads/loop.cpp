#include "tendril/rpc/threads/loop.h"

#include <sched.h>

#include "tendril/rpc/error.h"
#include "tendril/rpc/threads/release.h"
#include "tendril/rpc/threads/thread_state.h"

namespace tendril::rpc {

namespace {
thread_local Executor* current_executor = nullptr;
}

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

bool in_io_callback() noexcept { return ThreadState::current().io_callbacks > 0; }

void release_in_pool(std::unique_ptr<Job> job, Executor* executor) noexcept {
  Executor* const pool = ThreadState::current().leading ? ThreadState::current().leading : executor;
  if (pool) pool->post_release(std::move(job));
}

namespace {

/// How long a waiter outside the pool is thought to come back for its next wait (docs/rpc.md, rule 1).
constexpr int kRecentMessages = 8;
constexpr std::chrono::milliseconds kRecentTime{1};

bool more_than_one_core() noexcept {
  cpu_set_t cores;
  return sched_getaffinity(0, sizeof cores, &cores) != 0 || CPU_COUNT(&cores) > 1;
}

}  // namespace

void Waiter::run(FutureCore&) noexcept {
  const bool this_thread_leads = ThreadState::current().leading == &loop_;
  if (this_thread_leads && leading) {  // then it is the waiting thread itself
    done.store(true, std::memory_order_relaxed);
    return;
  }
  const std::lock_guard lock(loop_.mutex_);
  if (this_thread_leads) loop_.waiter_completed_ = true;
  if (is_linked()) loop_.passive_.erase(loop_.passive_.iterator_to(*this));
  done.store(true, std::memory_order_release);
  if (leading) {
    loop_.interrupt_leader();
  } else {
    wake.notify_one();
  }
}

Loop::Loop(LoopOptions options)
    : options_(std::move(options)), may_spin_(options_.max_spin.count() > 0 && more_than_one_core()) {}

Loop::~Loop() {
  end_by(Clock::time_point::max());
  (void)stop();
}

bool Loop::work_comes_in() const {
  return messages_since_job_ < kRecentMessages || Clock::now() - last_job_ < kRecentTime;
}

void Loop::interrupt_leader() {
  look_.store(true, std::memory_order_relaxed);
  boost::asio::post(io_, [] {});
}

void Loop::start_leading_locked() noexcept {
  has_leader_ = true;
  job_posted_ = waiter_completed_ = false;
  ThreadState::current().leading = this;
}

/// At the end nobody comes after: what the io_context still holds is for the one that leaves, closed sockets' handlers
/// above all, which keep links and with them the loop.
void Loop::stop_leading(std::unique_lock<std::mutex>& lock) {
  if (phase_ != Phase::running) poll_io(lock);
  ThreadState::current().leading = nullptr;
  has_leader_ = false;
  ++leader_epoch_;
  if (phase_ != Phase::running) rested_.notify_all();
}

void Loop::hand_off_or_poll_locked() {
  if (!passive_.empty()) {
    Waiter& next = passive_.front();
    next.next_leader = true;
    next.wake.notify_one();
  } else {
    ensure_poller_locked();
  }
}

/// Polls for as long as replies have lately taken, if that is short: a sleep and a wake-up cost more.
bool Loop::spin(Clock::time_point deadline) {
  const Clock::time_point start = Clock::now();
  const auto budget = std::min<std::chrono::nanoseconds>(options_.max_spin, 2 * usual_wait_);
  if (usual_wait_ > options_.max_spin) return false;
  for (Clock::time_point now = start; now - start < budget && now < deadline; now = Clock::now()) {
    if (io_.poll_one() > 0) {
      usual_wait_ += (now - start - usual_wait_) / 4;
      return true;
    }
    sched_yield();  // another process may be the one that has to answer
  }
  return false;
}

void Loop::run_some(Clock::time_point deadline) {
  const IoCallbackScope io_callback;
  if (may_spin_) {
    if (io_.poll_one() > 0 || spin(deadline)) return;
  }
  const Clock::time_point start = may_spin_ ? Clock::now() : Clock::time_point();
  if (deadline == Clock::time_point::max()) {
    io_.run_one();
  } else {
    io_.run_one_until(deadline);
  }
  if (may_spin_) {
    // Long waits count as a little too long only, so that a few short ones bring the polling back.
    const auto waited = std::min<std::chrono::nanoseconds>(Clock::now() - start, 4 * options_.max_spin);
    usual_wait_ += (waited - usual_wait_) / 4;
  }
}

/// This thread leads and `lock` is held, before and after.
void Loop::lead_in_pool(std::unique_lock<std::mutex>& lock) {
  for (;;) {
    lock.unlock();
    bool look = false;
    while (!look && !job_posted_ && !waiter_completed_) {
      run_some(Clock::time_point::max());
      look = look_.exchange(false, std::memory_order_relaxed);
    }
    lock.lock();
    if (job_posted_ || phase_ != Phase::running || can_run_job_locked()) return;
    if (waiter_completed_ && passive_.empty() && !work_comes_in()) return;  // it leads its next wait itself
    waiter_completed_ = false;
  }
}

/// As above. False: the deadline passed.
bool Loop::lead_waiting(Waiter& waiter, Clock::time_point deadline, std::unique_lock<std::mutex>& lock) {
  waiter.leading = true;
  bool in_time = true;
  lock.unlock();
  while (!waiter.done.load(std::memory_order_acquire) && !job_posted_ && in_time) {
    run_some(deadline);
    if (look_.exchange(false, std::memory_order_relaxed)) {
      lock.lock();
      const bool leave = phase_ != Phase::running || can_run_job_locked();
      lock.unlock();
      if (leave) job_posted_ = true;
    }
    in_time = deadline == Clock::time_point::max() || Clock::now() < deadline;
  }
  lock.lock();
  waiter.leading = false;
  return in_time || waiter.done.load(std::memory_order_relaxed);
}

bool Loop::wait(FutureCore& future, Clock::time_point deadline) {
  Waiter waiter(*this);
  future.attach(waiter);
  std::unique_lock lock(mutex_);
  bool may_lead = true;
  bool in_time = true;
  while (!waiter.done.load(std::memory_order_acquire) && in_time) {
    if ((may_lead || waiter.next_leader) && !has_leader_ && phase_ == Phase::running) {
      waiter.next_leader = false;
      start_leading_locked();
      in_time = lead_waiting(waiter, deadline, lock);
      const bool hand_over = job_posted_ && !waiter.done.load(std::memory_order_relaxed);
      stop_leading(lock);
      if (can_run_job_locked()) wake_worker_locked();
      if (!hand_over || !can_run_job_locked()) hand_off_or_poll_locked();
      may_lead = !hand_over;
      continue;
    }
    waiter.next_leader = false;
    passive_.push_back(waiter);
    if (!has_leader_) ensure_poller_locked();
    if (deadline == Clock::time_point::max()) {
      waiter.wake.wait(lock, [&] { return waiter.done.load(std::memory_order_relaxed) || waiter.next_leader; });
    } else {
      in_time = waiter.wake.wait_until(
          lock, deadline, [&] { return waiter.done.load(std::memory_order_relaxed) || waiter.next_leader; });
    }
    if (waiter.is_linked()) passive_.erase(passive_.iterator_to(waiter));
  }
  if (!in_time && waiter.next_leader && !has_leader_) hand_off_or_poll_locked();  // the turn was this one's: pass it on
  lock.unlock();
  if (waiter.done.load(std::memory_order_acquire)) return true;
  if (future.detach(waiter)) return false;
  // Its callback is about to run, on another thread, and this stack must last until it has.
  lock.lock();
  waiter.wake.wait(lock, [&] { return waiter.done.load(std::memory_order_relaxed); });
  return true;
}

}  // namespace detail
}  // namespace tendril::rpc
