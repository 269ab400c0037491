#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tendril/rpc/executor.h"
#include "tendril/rpc/threads/job_queue.h"
#include "tendril/rpc/threads/thread_state.h"

namespace tendril::rpc::detail {

/// Which job may start: the queues, what runs, and what has given its slot back while it waits. It starts nothing
/// itself, and knows of no threads but how many there may be. Not thread-safe but for `busy`: the loop's mutex guards
/// it.
class Slots {
 public:
  /// So many handlers run at once, so many threads are in jobs at most, those that wait included.
  Slots(int slots, int max_threads) noexcept
      : slots_(slots), max_threads_(max_threads), open_to_all_(thread_limit(0)) {}

  void push(std::unique_ptr<Job> job) noexcept { queue_.push(std::move(job)); }
  /// A destructor. It first waits until `releases_are_due`: it is in no hurry, and a thread woken for a single one
  /// would cost more than it.
  void push_release(std::unique_ptr<Job> job) noexcept { releases_.push(std::move(job)); }
  void releases_are_due() noexcept { releases_due_ = !releases_.empty(); }
  bool handlers_wait() const noexcept { return !queue_.empty(); }
  bool has_releases() const noexcept { return !releases_.empty(); }
  /// From now on destructors are due at once.
  void stop_delaying() noexcept { delays_ = false; }

  bool can_run() const noexcept { return can_run_handler() || (releases_are_ripe() && can_run_release()); }
  /// One of those that may run, of which there is one, and what it counts as until `ended`. Turn about, so that neither
  /// kind is kept waiting by the other.
  std::unique_ptr<Job> take(Slot& slot) noexcept;
  void ended(Slot slot) noexcept;
  /// The job waits: another may run.
  void give_back(Slot slot) noexcept;
  /// It goes on, whether or not there is a slot: whoever holds one may need what this job holds, a mutex say. So more
  /// handlers than slots may run for a while; no new one starts meanwhile.
  void take_back(Slot slot) noexcept;

  /// Nothing runs, waits, or is queued.
  bool at_rest() const noexcept { return active_ + blocked_ + releasing_ == 0 && queue_.empty() && releases_.empty(); }
  std::size_t queued() const noexcept { return queue_.size() + releases_.size(); }
  int running() const noexcept { return active_ + releasing_; }
  int blocked() const noexcept { return blocked_; }
  uint64_t begun() const noexcept { return begun_; }  ///< of all
  /// Any thread: as `running`, about.
  int busy() const noexcept { return busy_.load(std::memory_order_relaxed); }

  /// If jobs wait because too many others do: a clause for an error that says so. Else empty.
  std::string held_back() const;
  std::vector<CallOrigin> queued_origins() const;  ///< of the jobs that wait for a slot

 private:
  int& count_of(Slot slot) noexcept { return slot == Slot::handler ? active_ : releasing_; }
  int thread_limit(int level) const noexcept;
  int lowest_level() const noexcept {
    return active_ + blocked_ + releasing_ < open_to_all_ ? 0 : lowest_level_if_full();
  }
  int lowest_level_if_full() const noexcept;
  bool can_run_handler() const noexcept { return !queue_.empty() && active_ < slots_ && queue_.any(lowest_level()); }
  /// Where a handler of level 0 might start: destructors that wait must leave the threads that are kept for nested
  /// calls, which may be what they wait for.
  bool can_run_release() const noexcept { return !releases_.empty() && releasing_ == 0 && lowest_level() == 0; }
  bool releases_are_ripe() const noexcept { return releases_due_ || !delays_; }

  const int slots_, max_threads_;
  const int open_to_all_;  // with so few threads in jobs, of any level
  JobQueue queue_, releases_;
  int active_ = 0;     // handlers that run; more than slots_ while those that have waited end
  int releasing_ = 0;  // jobs of releases_ that run
  int blocked_ = 0;
  uint64_t begun_ = 0;
  bool release_next_ = false;
  bool releases_due_ = false;
  bool delays_ = true;
  std::atomic<int> busy_{0};
};

}  // namespace tendril::rpc::detail
