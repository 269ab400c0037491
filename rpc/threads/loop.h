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
#include "tendril/rpc/threads/held_sends.h"
#include "tendril/rpc/threads/leadership.h"
#include "tendril/rpc/threads/mutex.h"
#include "tendril/rpc/threads/polling.h"
#include "tendril/rpc/threads/reactor.h"
#include "tendril/rpc/threads/slots.h"
#include "tendril/rpc/threads/thread_state.h"
#include "tendril/rpc/threads/waiter.h"

namespace tendril::rpc::detail {

struct LoopOptions {
  std::string name;  ///< of the threads, as debuggers show it
  int slots = 16;    ///< handlers that run at once
  int max_threads = 256;
  std::chrono::microseconds max_spin{500};
};

/// A reactor, the one thread that leads it, and a pool of threads that run jobs under slots: the rules of docs/rpc.md,
/// section "Who runs what". Thread-safe.
///
/// Reactor: what is waited for, and by one thread at a time (reactor.h). Leadership: who that is, and who is next
/// (leadership.h, loop.cpp). Slots: which job may start (slots.h). The pool's threads, here: who runs it (pool.cpp). A
/// leader that stops sees to it that another follows: a waiter, or a pool thread that polls. One mutex guards all but
/// the reactor.
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

  Reactor& reactor() noexcept { return reactor_; }
  /// Runs `f` on the leader's thread, as an I/O callback, soon.
  template <class F>
  void post_io(F f) {
    reactor_.post(std::move(f));
  }

  void post(std::unique_ptr<Job> job) override;
  void post_release(std::unique_ptr<Job> job) override;
  bool wait(FutureCore& future, Clock::time_point deadline) override;

  /// From now on it is told how long each thread led, on that thread, with the mutex held: it must not block or throw.
  using Led = std::function<void(Clock::time_point since, Clock::time_point until)>;
  void tell_leading(Led led);

  /// Links tell, on the leader's thread, that they read a message. Whether it makes work for the pool (post) decides
  /// who keeps leadership.
  void message_read(Clock::time_point now) noexcept { leadership_.note_message(now); }
  /// Whether this thread may write a little later what it sends now (held_sends.h). `floods`: it is one of many
  /// requests, made in a row.
  bool may_hold_back(bool floods) const noexcept {
    const ThreadState& thread = ThreadState::current();
    return (thread.pool == this ? thread.more_follows : floods) && !leadership_.taken();
  }
  /// Then: `sender` will be told to. False: not any more.
  bool hold_back(std::shared_ptr<HeldSends::Sender> sender) { return held_sends_.hold(std::move(sender)); }

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

  // Its end (pool_ending.cpp).
  bool at_rest_locked() const noexcept;
  void stop_locked() noexcept;
  void leave_pool(Worker& self, std::unique_lock<Mutex>& lock);
  void look_at_io(std::unique_lock<Mutex>& lock);
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
  const sigset_t blocked_;  // signals, in the pool's threads: as in the thread that has made this
  const int spare_cores_;   // beside two: so many jobs may compute while the leader polls
  Reactor reactor_;
  Polling polling_;  // the leader's
  mutable Mutex mutex_;

  // Under the mutex.
  Slots slots_;
  Leadership leadership_;
  Led led_;                        // null: nobody asks
  Clock::time_point leads_since_;  // where somebody does
  Phase phase_ = Phase::running;
  int arriving_ = 0;           // pool threads that have been woken and have not looked around yet
  bool has_poller_ = false;    // a pool thread looks every poll interval
  std::list<Worker> workers_;  // whose threads have not ended
  std::list<Worker> ended_;    // and whose have: others may be about to notify them
  std::vector<Worker*> idle_;
  Condition rested_;  // a job has ended, or a leader stopped, while stopping

  HeldSends held_sends_{leadership_};
};

}  // namespace tendril::rpc::detail
