#pragma once

#include <algorithm>
#include <chrono>

#include "tendril/rpc/call_context.h"

namespace tendril::rpc::detail {

/// Whether a leader that has nothing to do polls before it sleeps, and for how long: for as long as a sleep and a
/// wake-up would cost, and then it sleeps. So it never takes twice of what the better of the two would have taken
/// (competitive spinning). What a wait took that ended in a sleep does not count: it includes the wake-up, so it would
/// say of the shortest waits that they are too long to poll for.
///
/// Where polling has not paid, because waits are longer, or because other threads want the core, it pauses: for as long
/// again as it has taken in vain, twice, four times, ... 128 times. So it costs a hundredth of the time where it never
/// pays, and is back soon where it pays again. The leader's; not thread-safe.
class Polling {
 public:
  explicit Polling(std::chrono::nanoseconds wakeup_cost) noexcept : budget_(wakeup_cost) {}

  bool possible() const noexcept { return budget_.count() > 0; }
  /// How long to poll at most. 0: sleep.
  std::chrono::nanoseconds budget(Clock::time_point now) const noexcept {
    return now < paused_until_ ? std::chrono::nanoseconds(0) : budget_;
  }
  /// It has polled until `now`, for so long, and something has come, or not. What took far longer than it should was
  /// another thread's time: that one had the core.
  void polled(Clock::time_point now, std::chrono::nanoseconds took, bool came) noexcept {
    if (came && took <= 2 * budget_) {
      failures_ = 0;
      return;
    }
    failures_ = std::min(failures_ + 1, kMostFailures);
    paused_until_ = now + took * (1 << failures_);
  }

 private:
  static constexpr int kMostFailures = 7;

  const std::chrono::nanoseconds budget_;
  Clock::time_point paused_until_{};
  int failures_ = 0;  // in a row
};

}  // namespace tendril::rpc::detail
