#include "latency.h"

#include <mutex>

namespace examples {
namespace {

std::mutex mutex;
LatencyHistogram histogram;

}  // namespace

void detail::record_call(std::chrono::steady_clock::duration duration) {
  const std::lock_guard lock(mutex);
  histogram.record(static_cast<std::uint64_t>(std::chrono::nanoseconds(duration).count()));
}

LatencyHistogram call_latencies() {
  const std::lock_guard lock(mutex);
  return histogram;
}

}  // namespace examples
