#pragma once

#include <tendril/rpc/rref.h>

#include <chrono>
#include <cstdint>
#include <vector>

namespace examples {

/// While it lives, a call: how long that took is one of `call_latencies` then. Thread-safe.
class CallTimer {
 public:
  CallTimer() = default;
  ~CallTimer();
  CallTimer(const CallTimer&) = delete;
  CallTimer& operator=(const CallTimer&) = delete;

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

/// rref.rpc_sync<method>(arguments...), timed until its caller goes on; where the object is in this process, a plain
/// call.
template <auto method, class T, class... Arguments>
auto rpc_sync(const tendril::rpc::RRef<T>& rref, const Arguments&... arguments) {
  if (rref.is_owner()) return (rref.local_value().*method)(arguments...);
  const CallTimer timer;
  return rref.template rpc_sync<method>(arguments...);
}

/// Of this process: how many calls were timed so far. Thread-safe; may be called remotely.
std::int64_t timed_calls();
/// Of this process, in microseconds: the latest million calls that were timed. Thread-safe; may be called remotely.
std::vector<float> call_latencies();

}  // namespace examples
