#pragma once

#include <chrono>
#include <csignal>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "tendril/rpc/executor.h"
#include "tendril/rpc/system/mutex.h"
#include "tendril/rpc/system/thread_state.h"
#include "tendril/rpc/threads/held_sends.h"
#include "tendril/rpc/threads/leadership.h"
#include "tendril/rpc/threads/polling.h"
#include "tendril/rpc/threads/reactor.h"
#include "tendril/rpc/threads/slots.h"
#include "tendril/rpc/threads/waiter.h"

namespace tendril::rpc::detail {

struct LoopOptions {
  std::string name;  ///< name of the pool's threads, as debuggers show it
  int slots = 16;    ///< handlers that may run at once
  int max_threads = 256;
  std::chrono::microseconds max_spin{500};
};

/// A reactor, the one thread that leads it, and a pool of threads that run jobs under slots (docs/rpc.md). Thread-safe.
///
/// - The reactor waits for events; one thread at a time runs it (reactor.h).
/// - Leadership selects that thread and its successor (leadership.h, loop.cpp). A leader that stops makes sure that
///   another thread follows: a waiter, or a pool thread that polls.
/// - Slots decide which job may start (slots.h).
/// - The pool's threads run the jobs (pool.cpp).
///
/// One mutex guards everything except the reactor.
///
/// A loop ends in two irreversible steps (pool_ending.cpp), each taken under the mutex:
/// - stopping: no thread stays leader, but jobs run as before, including those that running jobs post.
/// - stopped: entered once nothing runs and nothing is queued, or when the deadline has passed. The pool's threads end,
///   except those that are still running something: they are detached, and each keeps the loop alive. A job posted now
///   runs at once, on the posting thread.
class Loop final : public Executor {
 public:
  explicit Loop(LoopOptions options);
  ~Loop() override;

  void start();  ///< starts the first pool thread, so that one can always lead if no other thread does

  Reactor& reactor() noexcept { return reactor_; }
  /// Runs `f` soon on the leader's thread, as an I/O callback.
  template <class F>
  void post_io(F f) {
    reactor_.post(std::move(f));
  }

  void post(std::unique_ptr<Job> job) override;
  void post_release(std::unique_ptr<Job> job) override;
  bool wait(FutureCore& future, Clock::time_point deadline) override;

  /// Reports to `led` when each thread led. Called on that thread with the mutex held: it must not block or throw.
  using Led = std::function<void(Clock::time_point since, Clock::time_point until)>;
  void set_leading_callback(Led led);

  /// Called by links, on the leader's thread, when they have read a message. Whether messages create jobs (`post`)
  /// decides which thread keeps leadership.
  void message_read(Clock::time_point now) noexcept { leadership_.note_message(now); }
  /// Whether a frame that this thread sends now may be written a little later (held_sends.h). `floods`: it is one of
  /// many requests made in a row.
  bool may_hold_back(bool floods) const noexcept {
    const ThreadState& thread = ThreadState::current();
    return (thread.pool == this ? thread.more_follows : floods) && !leadership_.taken();
  }
  /// Arranges for `sender` to be told to write. Returns false if its frames may no longer be held back.
  bool hold_back(std::shared_ptr<HeldSends::Sender> sender) { return held_sends_.hold(std::move(sender)); }

  /// Stops the loop once nothing runs and nothing is queued. Returns false if the deadline passed first. Must not be
  /// called from a pool thread.
  bool end_by(Clock::time_point deadline);
  /// The job or callback that a thread is running.
  struct Running {
    Slot kind;  ///< none: an I/O callback
    CallOrigin origin;
    Clock::duration age;
  };
  /// After `end_by`, stops the loop even if work is left. Ends the pool's threads, and returns the work of those that
  /// cannot be ended: each keeps this loop alive until its function has returned. Idempotent.
  std::vector<Running> stop();

  struct Gauges {
    std::size_t queued_jobs, active, threads, blocked;
    uint64_t jobs_begun;
  };
  Gauges gauges() const;
  std::vector<Running> running() const;    ///< jobs only
  std::vector<CallOrigin> queued() const;  ///< origins of the jobs that wait for a slot
  std::vector<Running> unended() const;    ///< all work that keeps `end_by` waiting: I/O callbacks, too

  /// If calls wait because too many handlers do, a clause for an error text that explains this; otherwise empty.
  std::string held_back() const;

  // For BlockedScope.
  void give_slot();
  void take_slot(Slot slot);

 private:
  friend class Waiter;

  enum class Phase { running, stopping, stopped };

  // The pool (pool.cpp). "_locked": the caller holds the mutex.
  void work(Worker& self);
  void run_next_job(Worker& self, std::unique_lock<Mutex>& lock);
  void idle(Worker& self, std::unique_lock<Mutex>& lock);
  void wake_worker_locked() { notify(worker_to_wake_locked()); }
  void ensure_poller_locked() { notify(poller_to_wake_locked()); }
  Condition* worker_to_wake_locked();
  Condition* poller_to_wake_locked();
  static void notify(Condition* due) noexcept {
    if (due) due->notify_one();
  }
  void stop_polling_locked(Worker& self) noexcept;
  void spawn_locked(bool polls);

  // The end of the pool (pool_ending.cpp).
  bool at_rest_locked() const noexcept;
  void stop_locked() noexcept;
  void leave_pool(Worker& self, std::unique_lock<Mutex>& lock);
  void run_pending_io(std::unique_lock<Mutex>& lock);
  void poll_io(std::unique_lock<Mutex>& lock);
  std::vector<Running> running_locked() const;
  std::vector<Running> unended_locked() const;

  // Leading (loop.cpp).
  void lead_in_pool(std::unique_lock<Mutex>& lock);
  bool lead_waiting(Waiter& waiter, Clock::time_point deadline, std::unique_lock<Mutex>& lock);
  void run_some(Clock::time_point deadline);
  bool poll(Clock::time_point deadline);
  bool has_cores_to_poll(Clock::time_point now);
  void start_leading_locked() noexcept;
  void stop_leading(std::unique_lock<Mutex>& lock);
  void hand_off_or_poll_locked();

  const LoopOptions options_;
  const sigset_t blocked_;  // signals that the pool's threads block: those of the thread that created the loop
  const int spare_cores_;   // cores beyond two: this many jobs may compute while the leader polls
  Reactor reactor_;
  Polling polling_;  // used by the leader only
  mutable Mutex mutex_;

  // Guarded by the mutex.
  Slots slots_;
  Leadership leadership_;
  Led led_;                        // may be null
  Clock::time_point leads_since_;  // maintained only while led_ is set
  Phase phase_ = Phase::running;
  int arriving_ = 0;           // pool threads that were woken and have not looked for work yet
  bool has_poller_ = false;    // a pool thread wakes every poll interval
  std::list<Worker> workers_;  // threads that have not ended
  std::list<Worker> ended_;    // threads that have: others may be about to notify them
  std::vector<Worker*> idle_;
  Condition work_ended_;  // while stopping: a job has ended, or a leader has stopped

  HeldSends held_sends_{leadership_};
};

}  // namespace tendril::rpc::detail
