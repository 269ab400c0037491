#pragma once

#include <algorithm>
#include <chrono>

#include "tendril/rpc/call_context.h"

namespace tendril::rpc::detail {

/// Decides whether an idle leader polls before it sleeps, and for how long. It polls for as long as a sleep and a
/// wake-up would cost, and then sleeps, so a wait costs at most twice the better of the two (competitive spinning). The
/// length of a wait that ended in a sleep is ignored: it includes the wake-up, so even the shortest waits would seem
/// too long to poll for.
///
/// If polling does not pay off, because waits are longer or because other threads want the core, it pauses for 2, 4,
/// ... 128 times as long as it took in vain. It therefore costs about a hundredth of the time where it never pays off,
/// and resumes soon where it does again. Used by the leader only; not thread-safe.
class Polling {
 public:
  explicit Polling(std::chrono::nanoseconds wakeup_cost) noexcept : budget_(wakeup_cost) {}

  bool possible() const noexcept { return budget_.count() > 0; }
  /// The longest time to poll. 0: sleep at once.
  std::chrono::nanoseconds budget(Clock::time_point now) const noexcept {
    return now < paused_until_ ? std::chrono::nanoseconds(0) : budget_;
  }
  /// Records that the leader polled until `now`, for `took`, and whether an event came. A poll that far exceeded its
  /// budget counts as a failure: another thread had the core.
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
