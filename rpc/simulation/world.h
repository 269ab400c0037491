#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tendril/rpc/simulation/fibre.h"
#include "tendril/rpc/simulation/random.h"
#include "tendril/rpc/simulation/recorder.h"
#include "tendril/rpc/simulation/transcript.h"
#include "tendril/rpc/simulation/watchdog.h"
#include "tendril/rpc/system/simulator.h"
#include "tendril/rpc/threads/poller.h"

namespace tendril::rpc::detail {

/// One process of the simulation.
struct SimulatedWorker {
  int rank = 0;
  int start = 0;  ///< number of restarts before this process
  SwitchedValues values{tendril::detail::SwitchedVariable::Of::process};
  Clock::duration clock_ahead{0};  ///< its clock minus the world's time, without drift
  double clock_drift = 0;          ///< time that its clock gains, relative to the world's
  bool paused = false;
  bool dead = false;              ///< killed, or its function has returned; it sends nothing any more
  std::vector<uint64_t> fibres;   ///< numbers of its fibres that have not ended
  std::vector<uint64_t> parked;   ///< its runnable fibres, while it is paused or dead
  std::vector<bool> descriptors;  ///< whether each number is in use
  int64_t allocations_left = -1;  ///< in functions that it serves, before one fails; -1: none fails
};

/// Fibres, their scheduler, and virtual time. Every choice is drawn from the seed: which fibre runs next, how long a
/// step takes, and whether a fibre yields before it locks a mutex.
class World final : public Simulator {
 public:
  struct Options {
    uint64_t seed = 0;
    bool keep_transcript = false;
    std::size_t keep_events = 0;
    double yield = 0.02;  ///< probability that a fibre yields before it locks a mutex
    uint64_t most_steps = 50'000'000;
    Clock::duration time_limit{};          ///< of virtual time
    std::chrono::seconds longest_step{0};  ///< of real time (watchdog.h)
  };
  explicit World(const Options& options);
  ~World();

  // ---- workers
  SimulatedWorker& add_worker(int rank, int start);
  /// Starts a detached thread of the worker.
  void start_in(SimulatedWorker& worker, const std::string& name, std::function<void()> body);
  SimulatedWorker& worker() noexcept { return current_->worker; }  ///< the worker of the running fibre
  /// Ends the worker's process, which sends nothing any more. Runs its functions to their end, separately from other
  /// workers. Must not be called by a fibre. Returns false if some functions do not end.
  bool end(SimulatedWorker& worker);
  void pause(SimulatedWorker& worker) { worker.paused = true; }
  void go_on(SimulatedWorker& worker);
  /// Stops the fibre from running, or lets it run again. Returns false if it has ended.
  bool stall(uint64_t fibre, bool stalled);

  // ---- allocations
  /// Called by operator new. Only allocations in functions that a worker serves fail.
  bool allocation_fails() noexcept;
  /// During its lifetime, allocations of the running fibre do not fail.
  class InSimulator {
   public:
    explicit InSimulator(const World& world) noexcept : fibre_(world.current_) {
      if (fibre_ != nullptr) ++fibre_->in_simulator;
    }
    ~InSimulator() {
      if (fibre_ != nullptr) --fibre_->in_simulator;
    }
    InSimulator(const InSimulator&) = delete;
    InSimulator& operator=(const InSimulator&) = delete;

   private:
    detail::Fibre* const fibre_;
  };
  uint64_t failed_allocations() const noexcept { return failed_allocations_; }

  // ---- time
  Clock::duration elapsed() const noexcept { return time_ - start_; }
  Clock::time_point time() const noexcept { return time_; }
  void at(Clock::time_point time, std::function<void()> event);
  /// Likewise, but the event does not keep the simulation going: it is stuck if only such events are left.
  void in_background(Clock::duration delay, std::function<void()> event);
  void after(Clock::duration delay, std::function<void()> event) { at(time_ + delay, std::move(event)); }

  /// Runs until `done()`, until no fibre can run and no event is due, or until a limit is reached.
  enum class Ended { done, stuck, limit_reached };
  Ended run(const std::function<bool()>& done);
  std::string describe_waits() const;

  // ---- waiting
  /// Suspends the running fibre until `wake_*` is called with the address `on`. Returns false if the deadline, by the
  /// worker's clock, has passed. `what` describes the wait in reports.
  bool block(const void* on, Clock::time_point deadline, const char* what);
  /// Prefers a fibre of the worker that runs: a process's variables have the same addresses in all workers.
  void wake_one(const void* on) noexcept;
  void wake_all(const void* on) noexcept;

  SimulationRandom& random() noexcept { return workload_; }  ///< for choices outside the scheduler
  Transcript& transcript() noexcept { return transcript_; }
  Recorder* recorder() noexcept { return recorder_.get(); }  ///< null: events are not recorded
  void note(int rank, std::string_view what) { transcript_.note(elapsed(), rank, what); }
  /// Adds an event to the transcript, and records it with this kind. Only the recorder gets `more`.
  void happens(const char* kind, int rank, const std::string& what, const std::string& more = "");
  uint64_t steps() const noexcept { return steps_; }
  void set_network(Network& network, std::function<std::unique_ptr<Poller>()> make_poller);

  // ---- Simulator
  Clock::time_point now() noexcept override;
  void sleep_until(Clock::time_point when) override;
  uint64_t random_bits() override;
  std::chrono::nanoseconds run_time() noexcept override;
  Fibre start(std::function<void()> body, const std::string& name) override;
  void join(Fibre fibre) override;
  void detach(Fibre fibre) override;
  Fibre current() noexcept override { return current_; }
  void lock(Mutex& mutex) override;
  void unlocked(Mutex& mutex) noexcept override;
  bool wait(Condition& condition, Mutex& mutex, Clock::time_point deadline) override;
  void notify(Condition& condition, bool all) noexcept override;
  void wait(const void* word) noexcept override;
  void wake(const void* word) noexcept override;
  std::unique_ptr<Poller> make_poller() override { return make_poller_(); }
  Network& network() override { return *network_; }
  void log(LogLevel level, std::string_view worker, std::string_view text) noexcept override;

 private:
  using Thread = detail::Fibre;
  struct Event {
    Clock::time_point time;
    uint64_t number;
    bool background;
    std::function<void()> run;
    bool operator<(const Event& other) const noexcept {
      return time != other.time ? time > other.time : number > other.number;
    }
  };

  Thread* find(uint64_t number) const;
  void make_runnable(Thread& fibre) noexcept;
  Clock::time_point next_time() const;
  Clock::time_point time_of(const SimulatedWorker& worker) const noexcept;
  Clock::time_point time_when(const SimulatedWorker& worker, Clock::time_point own) const noexcept;
  void run_event();
  void end_of_wait(Thread& fibre) noexcept;
  void drop_timer(Thread& fibre) noexcept;
  void step(Thread& fibre);
  void yield();
  void forget(Thread& fibre);
  void abandon(SimulatedWorker& worker);
  bool stop_waiting(const void* on, uint64_t number) noexcept;

  const Options options_;
  SimulationRandom schedule_, system_, workload_;
  Transcript transcript_;
  const std::unique_ptr<Recorder> recorder_;
  const Clock::time_point start_{std::chrono::hours(24 * 365)};
  Clock::time_point time_ = start_;
  uint64_t steps_ = 0, events_made_ = 0, fibres_made_ = 0, failed_allocations_ = 0;
  FibreStacks stacks_;
  std::map<uint64_t, std::unique_ptr<Thread>> fibres_;
  std::vector<uint64_t> runnable_;
  std::priority_queue<Event> events_;
  std::size_t foreground_events_ = 0;
  std::set<std::pair<Clock::time_point, uint64_t>> sleepers_;      // fibres whose wait has a deadline
  std::unordered_map<const void*, std::deque<uint64_t>> waiters_;  // fibre numbers by address
  std::vector<std::unique_ptr<SimulatedWorker>> workers_;
  Thread* current_ = nullptr;
  SimulatedWorker* loaded_ = nullptr;  // the worker whose values are in the variables
  Network* network_ = nullptr;
  std::function<std::unique_ptr<Poller>()> make_poller_;
  Watchdog watchdog_;
};

}  // namespace tendril::rpc::detail
