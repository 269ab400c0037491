#pragma once

#include <algorithm>
#include <chrono>

#include "tendril/rpc/call_context.h"

namespace tendril::rpc::detail {

/// Estimates whether a thread in a job computes or is blocked where the library cannot see it (a sleep, a lock, foreign
/// I/O), from the processor time that it used between two samples. One object per thread; not thread-safe.
class ProcessorUse {
 public:
  /// Returns true if the thread computes, or if it is too early to tell. `begun` is the start of its current job.
  /// `used()` returns its processor time so far; it takes a system call, and is called only when a sample is due.
  template <class Used>
  bool computes(Clock::time_point begun, Clock::time_point now, const Used& used) {
    if (begun != begun_) {
      begun_ = begun;
      computes_ = true;
      interval_ = kFirstInterval;
    } else if (now - looked_ < interval_) {
      return computes_;
    }
    const std::chrono::nanoseconds total = used();
    if (looked_ >= begun) {
      computes_ = (total - used_) * kLeastPart > now - looked_;
      // A sleeping thread is sampled less and less often: sampling many of them would cost more than polling gains.
      interval_ = computes_ ? kFirstInterval : std::min(2 * interval_, kLongestInterval);
    }
    used_ = total;
    looked_ = now;
    return computes_;
  }

 private:
  static constexpr std::chrono::microseconds kFirstInterval{50}, kLongestInterval{1000};
  /// A thread computes if it uses more than 1/kLeastPart of a core. If it uses less, it does not want to compute: a few
  /// other threads would not keep it from running more than that.
  static constexpr int kLeastPart = 8;

  Clock::time_point begun_{}, looked_ = Clock::time_point::min();
  std::chrono::nanoseconds used_{};
  std::chrono::microseconds interval_{};
  bool computes_ = true;
};

}  // namespace tendril::rpc::detail
