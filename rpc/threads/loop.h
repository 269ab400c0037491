#pragma once

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/intrusive/list.hpp>
#include <chrono>
#include <condition_variable>
#include <list>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "tendril/rpc/executor.h"
#include "tendril/rpc/threads/job_queue.h"
#include "tendril/rpc/threads/thread_state.h"
#include "tendril/rpc/threads/waiter.h"

namespace tendril::rpc::detail {

struct LoopOptions {
  std::string name;  ///< of the threads, as debuggers show it
  int slots = 16;    ///< handlers that run at once
  int max_threads = 256;
  std::chrono::microseconds max_spin{50};
};

/// An io_context, the one thread that leads it, and a pool of threads that run jobs under slots: the rules
/// of docs/rpc.md, section "Who runs what". Thread-safe.
///
/// Leading is just a flag under the mutex: a thread that finds it free may take it, and then it alone runs the
/// io_context. A leader that stops sees to it that another follows: a waiter, or a pool thread that polls.
///
/// It ends in two steps (pool_ending.cpp), each taken under the mutex, and never goes back:
/// - stopping: nobody leads any more, but jobs are run as before, also those that running ones post.
/// - stopped: once nothing runs and nothing is queued, or when the time is up. The pool's threads end, but for those
///   that are in something: these are left to themselves, and each keeps the loop. What is posted runs at once, where
///   it is posted.
class Loop final : public Executor {
 public:
  explicit Loop(LoopOptions options);
  ~Loop() override;

  void start();  ///< the first pool thread, so that there is always one to lead where nobody does

  boost::asio::io_context& io() noexcept { return io_; }
  /// Runs `f` on the leader's thread, as an I/O callback, soon.
  template <class F>
  void post_io(F f) {
    boost::asio::post(io_, std::move(f));
  }

  void post(std::unique_ptr<Job> job) override;
  void post_release(std::unique_ptr<Job> job) override;
  bool wait(FutureCore& future, Clock::time_point deadline) override;

  /// Links tell, on the leader's thread, that they read a message. Whether it makes work for the pool (post) decides
  /// who keeps the lead.
  void message_read(Clock::time_point now) noexcept {
    ++messages_since_job_;
    last_read_ = now;
  }

  /// Stopping: waits until nothing runs and nothing is queued, and then it is stopped. False: not by the deadline. Not
  /// from a pool thread.
  bool end_by(Clock::time_point deadline);
  /// What a thread is in.
  struct Running {
    Slot kind;  ///< none: an I/O callback
    CallOrigin origin;
    Clock::duration age;
  };
  /// After that: stopped in any case. Ends the pool's threads, and returns what those that cannot be ended are in: each
  /// keeps this loop until the function has returned. Idempotent.
  std::vector<Running> stop();

  struct Gauges {
    std::size_t queued_jobs, active, threads, blocked;
    uint64_t jobs_begun;
  };
  Gauges gauges() const;
  std::vector<Running> running() const;    ///< in jobs
  std::vector<CallOrigin> queued() const;  ///< of the jobs that wait for a slot
  std::vector<Running> unended() const;    ///< in what keeps `end_by` waiting: I/O callbacks too

  /// If calls wait because too many handlers do: a clause for an error that says so. Else empty.
  std::string held_back() const;

  // For BlockedScope.
  void give_slot();
  void take_slot(Slot slot);

 private:
  friend class Waiter;

  enum class Phase { running, stopping, stopped };

  // Pool (pool.cpp). "_locked": the mutex is held.
  void work(Worker& self);
  void run_next_job(Worker& self, std::unique_lock<std::mutex>& lock);
  void idle(Worker& self, std::unique_lock<std::mutex>& lock);
  void wake_worker_locked();
  void ensure_poller_locked();
  void stop_polling_locked(Worker& self) noexcept;
  void spawn_locked(bool polls);
  std::unique_ptr<Job> take_job_locked(Slot& slot) noexcept;
  bool can_run_handler_locked() const noexcept;
  bool can_run_release_locked() const noexcept;
  bool can_run_job_locked() const noexcept;
  int lowest_level_locked() const noexcept;
  int thread_limit(int level) const noexcept;

  // Its end (pool_ending.cpp).
  bool at_rest_locked() const noexcept;
  void stop_locked() noexcept;
  void leave_pool(Worker& self, std::unique_lock<std::mutex>& lock);
  void look_at_io(std::unique_lock<std::mutex>& lock);
  void poll_io(std::unique_lock<std::mutex>& lock);
  std::vector<Running> running_locked() const;
  std::vector<Running> unended_locked() const;

  // Leading (loop.cpp).
  void lead_in_pool(std::unique_lock<std::mutex>& lock);
  bool lead_waiting(Waiter& waiter, Clock::time_point deadline, std::unique_lock<std::mutex>& lock);
  void run_some(Clock::time_point deadline);
  bool spin(Clock::time_point deadline);
  void start_leading_locked() noexcept;
  void stop_leading(std::unique_lock<std::mutex>& lock);
  void hand_off_or_poll_locked();
  void interrupt_leader();
  bool work_comes_in() const;

  const LoopOptions options_;
  boost::asio::io_context io_{1};  // 1: never run by two threads at once
  // Without work an io_context stops by itself.
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{io_.get_executor()};
  mutable std::mutex mutex_;

  // Under the mutex.
  JobQueue queue_;
  JobQueue releases_;
  int active_ = 0;      // handlers that run; more than `slots` while those that have waited end
  int releasing_ = 0;   // jobs of releases_ that run
  int blocked_ = 0;     // pool threads that gave their slot back
  uint64_t taken_ = 0;  // counts the jobs that were begun
  bool release_next_ = false;
  bool releases_due_ = false;  // those there are have waited for a poll interval
  int arriving_ = 0;           // pool threads that have been woken and have not looked around yet
  bool has_leader_ = false;
  bool polling_ = false;
  uint64_t leader_epoch_ = 0;  // counts how often a leader stopped
  Phase phase_ = Phase::running;
  std::list<Worker> workers_;  // whose threads have not ended
  std::vector<Worker*> idle_;
  boost::intrusive::list<Waiter> passive_;  // waiters whose future is not done and who do not lead
  std::condition_variable rested_;          // a job has ended, or a leader stopped, while stopping

  std::atomic<bool> look_{false};  // the leader shall stop leading and look around

  // The leader's own, handed on with the lead.
  bool job_posted_ = false, waiter_completed_ = false;
  int messages_since_job_ = 1000;
  Clock::time_point last_read_{}, last_job_{};
  bool may_spin_ = false;
  std::chrono::nanoseconds usual_wait_{0};  // moving average
};

}  // namespace tendril::rpc::detail
