#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::rpc::detail {

/// How long something that runs on the pool has taken of late, on average: whether it costs less to let others wait for
/// it than to wake a thread for them (docs/rpc.md, rule 4). An average, not the longest: a run during which another
/// process had the processor is no reason to wake a thread for each of the next few hundred. One run in a hundred that
/// sleeps is one. Thread-safe; of two runs that end together one may not count.
class RunTime {
 public:
  void note(std::chrono::nanoseconds took) noexcept {
    const auto sample = static_cast<uint32_t>(std::clamp<int64_t>(took.count(), 1, kLongest.count()));
    const uint32_t before = mean_ns_.load(std::memory_order_relaxed);
    const uint32_t mean = before == 0 ? sample : before - before / kOfSoMany + sample / kOfSoMany;
    mean_ns_.store(std::max<uint32_t>(mean, 1), std::memory_order_relaxed);
  }
  /// False also before its first run.
  bool is_short() const noexcept {
    const uint32_t mean = mean_ns_.load(std::memory_order_relaxed);
    return mean > 0 && mean < kShort.count();
  }

 private:
  static constexpr std::chrono::nanoseconds kShort = std::chrono::microseconds(20);
  /// Nobody waits longer for one that was taken for short: two poll intervals.
  static constexpr std::chrono::nanoseconds kLongest = std::chrono::milliseconds(2);
  static constexpr uint32_t kOfSoMany = 64;

  std::atomic<uint32_t> mean_ns_{0};
};

}  // namespace tendril::rpc::detail

TENDRIL_API_END
