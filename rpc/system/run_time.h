#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

#include "tendril/rpc/clock.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::rpc::detail {

std::chrono::nanoseconds simulated_run_time() noexcept;

/// The average run time of a function on the pool. If it is short, waiting for the function costs less than waking
/// another thread (docs/rpc.md, rule 4). The average is over all runs at first; later, old runs lose their weight.
///
/// A run of 200 us or more has probably slept, or another process had the processor. It counts as 5 ms, so that a
/// function that sleeps in one run of 100 counts as long, and one that is interrupted once in 1,000 runs does not. The
/// first run is cold and counts only until there is a second.
///
/// Thread-safe. If two runs end at the same time, one of them may not count.
class RunTime {
 public:
  void note(std::chrono::nanoseconds took) noexcept {
    if (simulator != nullptr) [[unlikely]]
      return;
    const auto sample = static_cast<int32_t>((took < kLong ? std::max(took, kNone) : kCountsAs).count());
    const Average before = average_.load(std::memory_order_relaxed);
    const int32_t weighs = std::max(1, before.runs);
    average_.store({std::min(before.runs + 1, kRuns), before.ns + (sample - before.ns) / weighs},
                   std::memory_order_relaxed);
  }
  /// Returns max() before the first run. A simulation draws the value at random, because it decides only which thread
  /// runs next, and every order must be correct.
  std::chrono::nanoseconds average() const noexcept {
    if (simulator != nullptr) [[unlikely]]
      return simulated_run_time();
    const Average average = average_.load(std::memory_order_relaxed);
    return average.runs > 0 ? std::chrono::nanoseconds(average.ns) : std::chrono::nanoseconds::max();
  }

 private:
  struct Average {
    int32_t runs = 0, ns = 0;
  };
  static constexpr std::chrono::nanoseconds kNone{0};
  static constexpr std::chrono::nanoseconds kLong = std::chrono::microseconds(200);
  static constexpr std::chrono::nanoseconds kCountsAs = std::chrono::milliseconds(5);
  static constexpr int32_t kRuns = 256;

  std::atomic<Average> average_{};
  static_assert(std::atomic<Average>::is_always_lock_free);
};

}  // namespace tendril::rpc::detail

TENDRIL_API_END
