#pragma once

#include <tendril/rpc/rref.h>

#include <chrono>
#include <cstdint>
#include <vector>

namespace examples {

/// Times a call: adds the time between construction and destruction to `call_latencies`. Thread-safe.
class CallTimer {
 public:
  CallTimer() = default;
  ~CallTimer();
  CallTimer(const CallTimer&) = delete;
  CallTimer& operator=(const CallTimer&) = delete;

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

/// Calls rref.rpc_sync<method>(arguments...) and records its latency. If this process owns the object, makes a plain,
/// untimed call.
template <auto method, class T, class... Arguments>
auto rpc_sync(const tendril::rpc::RRef<T>& rref, const Arguments&... arguments) {
  if (rref.is_owner()) return (rref.local_value().*method)(arguments...);
  const CallTimer timer;
  return rref.template rpc_sync<method>(arguments...);
}

/// Number of calls timed in this process so far. Thread-safe; may be called remotely.
std::int64_t timed_calls();
/// Latencies of this process's latest 2^20 timed calls, in microseconds and unordered. Thread-safe; may be called
/// remotely.
std::vector<float> call_latencies();

}  // namespace examples
