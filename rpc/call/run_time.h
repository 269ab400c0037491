#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::rpc::detail {

/// How long something that runs on the pool takes on average, of all runs at first, later of one that forgets those
/// that are long ago: whether it costs less to let others wait for it than to wake a thread for them (docs/rpc.md, rule
/// 4). Not the longest: a run during which another process had the processor is no reason to wake a thread for each of
/// the next few hundred. Thread-safe; of two runs that end together one may not count.
class RunTime {
 public:
  void note(std::chrono::nanoseconds took) noexcept {
    const auto sample = static_cast<int32_t>(std::clamp<int64_t>(took.count(), 0, kLongest.count()));
    const Average before = average_.load(std::memory_order_relaxed);
    const int32_t runs = std::min(before.runs + 1, kRuns);
    average_.store({runs, before.ns + (sample - before.ns) / runs}, std::memory_order_relaxed);
  }
  /// max() before its first run.
  std::chrono::nanoseconds average() const noexcept {
    const Average average = average_.load(std::memory_order_relaxed);
    return average.runs > 0 ? std::chrono::nanoseconds(average.ns) : std::chrono::nanoseconds::max();
  }

 private:
  struct Average {
    int32_t runs = 0, ns = 0;
  };
  static constexpr std::chrono::nanoseconds kLongest = std::chrono::milliseconds(10);  ///< none counts for more
  static constexpr int32_t kRuns = 256;

  std::atomic<Average> average_{};
  static_assert(std::atomic<Average>::is_always_lock_free);
};

}  // namespace tendril::rpc::detail

TENDRIL_API_END
