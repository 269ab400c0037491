#include "tendril/rpc/threads/slots.h"

#include <algorithm>

namespace tendril::rpc::detail {

/// A job of this level may start only while fewer threads than this are in jobs, waiting ones included. One thread is
/// always kept for the sockets, and some for calls that handlers here or elsewhere wait for: otherwise handlers that
/// wait for calls back could take all threads, and wait for ever.
int Slots::thread_limit(int level) const noexcept {
  const int kept = std::clamp(max_threads_ / 8, 1, 2 * Job::kContinuation);
  const int open = level == 0 ? 0 : std::min(kept, kept / 2 + level);
  return max_threads_ - 1 - kept + open;
}

/// The lowest level at which a job may start.
int Slots::lowest_level_if_full() const noexcept {
  const int threads = active_ + blocked_ + releasing_;
  int level = 0;
  while (level <= Job::kContinuation && threads >= thread_limit(level)) ++level;
  return level;
}

std::unique_ptr<Job> Slots::take(Slot& slot) noexcept {
  ++begun_;
  busy_.fetch_add(1, std::memory_order_relaxed);
  const bool handler = can_run_handler();
  if (!handler || (release_next_ && releases_due_ && can_run_release())) {
    release_next_ = false;
    slot = Slot::release;
    ++releasing_;
    std::unique_ptr<Job> job = releases_.pop();
    releases_due_ = releases_due_ && !releases_.empty();
    return job;
  }
  release_next_ = true;
  slot = Slot::handler;
  std::unique_ptr<Job> job = queue_.pop(lowest_level());
  ++active_;
  return job;
}

void Slots::ended(Slot slot) noexcept {
  --count_of(slot);
  busy_.fetch_sub(1, std::memory_order_relaxed);
}

void Slots::give_back(Slot slot) noexcept {
  ended(slot);
  ++blocked_;
}

void Slots::take_back(Slot slot) noexcept {
  --blocked_;
  ++count_of(slot);
  busy_.fetch_add(1, std::memory_order_relaxed);
}

std::string Slots::held_back() const {
  if (queue_.empty() || active_ >= slots_ || can_run_handler()) return "";
  return "; at this worker " + std::to_string(blocked_) + " handlers wait, each on a thread of at most " +
         std::to_string(max_threads_) + " (max_threads), and keep " + std::to_string(queue_.size()) +
         " calls from starting: write them as coroutines (Task<T>, co_await), which hold no thread while they wait";
}

std::vector<CallOrigin> Slots::queued_origins() const {
  std::vector<CallOrigin> origins;
  origins.reserve(queue_.size());
  queue_.for_each([&](const Job& job) { origins.push_back(job.origin()); });
  return origins;
}

}  // namespace tendril::rpc::detail
