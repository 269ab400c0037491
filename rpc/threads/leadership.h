#pragma once

#include <atomic>
#include <boost/intrusive/list.hpp>
#include <chrono>
#include <cstdint>

#include "tendril/rpc/call_context.h"
#include "tendril/rpc/threads/waiter.h"

namespace tendril::rpc::detail {

/// Tracks whether a thread leads a loop, and which waiter leads next (docs/rpc.md). Leadership is a flag: a thread that
/// finds it clear may set it, and then that thread alone runs the reactor. Guarded by the loop's mutex, except `taken`,
/// which any thread may call, and the notes, which only the leader uses.
class Leadership {
 public:
  bool taken() const noexcept { return taken_.load(); }
  void take() noexcept {
    taken_.store(true);
    job_posted_ = waiter_completed_ = false;
  }
  void release() noexcept {
    taken_.store(false);
    ++epoch_;
  }
  uint64_t epoch() const noexcept { return epoch_; }  ///< how often a leader has stopped

  // ---- threads that wait for a future and do not lead
  void wait(Waiter& waiter) { waiting_.push_back(waiter); }
  void leave(Waiter& waiter) noexcept {
    if (waiter.is_linked()) waiting_.erase(waiting_.iterator_to(waiter));
  }
  bool has_waiters() const noexcept { return !waiting_.empty(); }
  /// Makes the thread that has waited longest the next leader, and wakes it. Returns false if no thread waits.
  bool hand_to_waiter() {
    if (waiting_.empty()) return false;
    waiting_.front().next_leader = true;
    waiting_.front().wake.notify_one();
    return true;
  }

  // ---- the leader's notes, passed on with leadership
  /// Records that a message was read. Whether messages create jobs for the pool decides which thread keeps leadership.
  void note_message(Clock::time_point now) noexcept {
    ++messages_since_job_;
    last_read_ = now;
  }
  /// Records that a message created a job: the leader stops leading as soon as the callback has returned.
  void note_job() noexcept {
    job_posted_ = true;
    messages_since_job_ = 0;
    last_job_ = last_read_;
  }
  void note_waiter_completed() noexcept { waiter_completed_ = true; }
  void forget_waiter_completed() noexcept { waiter_completed_ = false; }
  bool job_posted() const noexcept { return job_posted_; }
  bool waiter_completed() const noexcept { return waiter_completed_; }
  /// Whether recent messages created jobs for the pool, so that a waiter would have to hand leadership back at once.
  bool work_comes_in() const { return messages_since_job_ < kRecentMessages || Clock::now() - last_job_ < kRecentTime; }

 private:
  /// How recent the last job must be for `work_comes_in`, in messages or in time (docs/rpc.md, rule 1).
  static constexpr int kRecentMessages = 8;
  static constexpr std::chrono::milliseconds kRecentTime{1};

  std::atomic<bool> taken_{false};
  uint64_t epoch_ = 0;
  boost::intrusive::list<Waiter> waiting_;

  bool job_posted_ = false, waiter_completed_ = false;  // since leadership was taken
  int messages_since_job_ = 1000;
  Clock::time_point last_read_{}, last_job_{};
};

}  // namespace tendril::rpc::detail
