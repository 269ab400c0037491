#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tendril/rpc/executor.h"
#include "tendril/rpc/system/thread_state.h"
#include "tendril/rpc/threads/job_queue.h"

namespace tendril::rpc::detail {

/// Decides which job may start. Holds the queues, and counts the jobs that run and those that have released their slot
/// while they wait. It starts nothing itself, and of threads it knows only how many there may be. Guarded by the loop's
/// mutex, except `busy`, which is thread-safe.
class Slots {
 public:
  /// `slots`: handlers that may run at once. `max_threads`: threads that may be in jobs, including those that wait.
  Slots(int slots, int max_threads) noexcept
      : slots_(slots), max_threads_(max_threads), open_to_all_(thread_limit(0)) {}

  void push(std::unique_ptr<Job> job) noexcept { queue_.push(std::move(job)); }
  /// Queues a destructor, which first waits for `releases_are_due`: it is not urgent, and waking a thread for a single
  /// one would cost more than the destructor itself.
  void push_release(std::unique_ptr<Job> job) noexcept { releases_.push(std::move(job)); }
  void releases_are_due() noexcept { releases_due_ = !releases_.empty(); }
  bool handlers_wait() const noexcept { return !queue_.empty(); }
  bool has_releases() const noexcept { return !releases_.empty(); }
  /// Makes destructors due at once from now on.
  void stop_delaying() noexcept { delays_ = false; }

  bool can_run() const noexcept { return can_run_handler() || (releases_ready() && can_run_release()); }
  /// Removes a job that may run; `can_run` must be true. `slot` receives the kind that it counts as until `ended`.
  /// Handlers and destructors take turns, so that neither kind starves the other.
  std::unique_ptr<Job> take(Slot& slot) noexcept;
  void ended(Slot slot) noexcept;
  /// Releases the slot of a job that waits, so that another may run.
  void give_back(Slot slot) noexcept;
  /// Counts a job that resumes, whether or not a slot is free: a slot's holder may need something that this job holds,
  /// such as a mutex. More handlers than slots may therefore run for a while; no new one starts meanwhile.
  void take_back(Slot slot) noexcept;

  /// Whether nothing runs, waits or is queued.
  bool at_rest() const noexcept { return active_ + blocked_ + releasing_ == 0 && queue_.empty() && releases_.empty(); }
  std::size_t queued() const noexcept { return queue_.size() + releases_.size(); }
  int running() const noexcept { return active_ + releasing_; }
  int blocked() const noexcept { return blocked_; }
  uint64_t begun() const noexcept { return begun_; }  ///< jobs begun so far
  /// Roughly the same as `running`, for any thread.
  int busy() const noexcept { return busy_.load(std::memory_order_relaxed); }

  /// If jobs wait because too many handlers do, a clause for an error text that explains this; otherwise empty.
  std::string held_back() const;
  std::vector<CallOrigin> queued_origins() const;  ///< origins of the jobs that wait for a slot

 private:
  int& count_of(Slot slot) noexcept { return slot == Slot::handler ? active_ : releasing_; }
  int thread_limit(int level) const noexcept;
  int lowest_level() const noexcept {
    return active_ + blocked_ + releasing_ < open_to_all_ ? 0 : lowest_level_if_full();
  }
  int lowest_level_if_full() const noexcept;
  bool can_run_handler() const noexcept { return !queue_.empty() && active_ < slots_ && queue_.any(lowest_level()); }
  /// Only where a handler of level 0 might start: a destructor may wait for nested calls, so it must not take the
  /// threads that are kept for them.
  bool can_run_release() const noexcept { return !releases_.empty() && releasing_ == 0 && lowest_level() == 0; }
  bool releases_ready() const noexcept { return releases_due_ || !delays_; }

  const int slots_, max_threads_;
  const int open_to_all_;  // with fewer threads than this in jobs, a job of any level may start
  JobQueue queue_, releases_;
  int active_ = 0;     // running handlers; more than slots_ while resumed ones finish
  int releasing_ = 0;  // running jobs from releases_
  int blocked_ = 0;
  uint64_t begun_ = 0;
  bool release_next_ = false;
  bool releases_due_ = false;
  bool delays_ = true;
  std::atomic<int> busy_{0};
};

}  // namespace tendril::rpc::detail
