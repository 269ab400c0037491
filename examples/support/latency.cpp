#include "latency.h"

#include <mutex>

namespace examples {
namespace {

std::mutex mutex;
std::vector<float> latencies;

}  // namespace

CallTimer::~CallTimer() {
  const std::chrono::duration<float, std::micro> latency = std::chrono::steady_clock::now() - begin_;
  const std::lock_guard lock(mutex);
  latencies.push_back(latency.count());
}

std::vector<float> call_latencies() {
  const std::lock_guard lock(mutex);
  return latencies;
}

}  // namespace examples
