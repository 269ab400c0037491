#pragma once

#include <algorithm>
#include <chrono>

#include "tendril/rpc/call_context.h"

namespace tendril::rpc::detail {

/// Whether a thread in a job computes, or sleeps in a way that cannot be seen (a sleep, a lock or I/O of its own):
/// by the processor time that it has used between two looks. Of one thread; not thread-safe.
class ProcessorUse {
 public:
  /// The thread has been in the same job since `begun`. `used()` is its processor time so far, which is asked for only
  /// if it is time to look again: it takes a system call. True: it computes, or it is too early to tell.
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
      // One that sleeps is looked at less and less often: many of them would cost more than their polling gains.
      interval_ = computes_ ? kFirstInterval : std::min(2 * interval_, kLongestInterval);
    }
    used_ = total;
    looked_ = now;
    return computes_;
  }

 private:
  static constexpr std::chrono::microseconds kFirstInterval{50}, kLongestInterval{1000};
  /// Of a core. One that has less of it than this is not kept from computing by a few others: it does not want to.
  static constexpr int kLeastPart = 8;

  Clock::time_point begun_{}, looked_ = Clock::time_point::min();
  std::chrono::nanoseconds used_{};
  std::chrono::microseconds interval_{};
  bool computes_ = true;
};

}  // namespace tendril::rpc::detail
