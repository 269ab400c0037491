#include "latency.h"

#include <cstddef>
#include <mutex>

namespace examples {
namespace {

std::mutex mutex;
constexpr std::size_t kKept = std::size_t{1} << 20;  // 4 MiB; bounded, because a run may last for days
std::vector<float> latencies;
std::int64_t calls = 0;

}  // namespace

CallTimer::~CallTimer() {
  const std::chrono::duration<float, std::micro> latency = std::chrono::steady_clock::now() - begin_;
  const std::lock_guard lock(mutex);
  if (latencies.size() < kKept) latencies.emplace_back();
  latencies[static_cast<std::size_t>(calls++) % kKept] = latency.count();
}

std::int64_t timed_calls() {
  const std::lock_guard lock(mutex);
  return calls;
}

std::vector<float> call_latencies() {
  const std::lock_guard lock(mutex);
  return latencies;
}

}  // namespace examples
