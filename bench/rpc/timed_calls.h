#pragma once

#include <chrono>
#include <functional>
#include <vector>

#include "tendril/rpc/agent.h"
#include "tendril/rpc/future.h"

/// What the programs beside this file call, and how they time it. All calls go to rank 1, by the calling thread.
namespace tendril::bench {

inline double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Empty calls.
void call_nothing(rpc::Agent& agent);
/// An echo of `x`, any shape of float32; its result is dropped.
void call_echo(rpc::Agent& agent, const Tensor& x);
/// One call of a function that sleeps for 5 ms, not waited for.
rpc::Future<void> call_sleep(rpc::Agent& agent);

/// `call` again and again for that long, at least once: microseconds of each, sorted. `before_each` is told how many
/// there were.
std::vector<double> time_for(
    double seconds, const std::function<void()>& call, const std::function<void(int)>& before_each = [](int) {});

/// Empty calls a second, that many of them waiting for their replies at any time.
double calls_per_second(rpc::Agent& agent, int in_flight, double seconds);

/// Empty calls for that long as time_for's, one in a hundred of them beside one that sleeps for 5 ms.
std::vector<double> beside_sleepers(rpc::Agent& agent, double seconds);

struct BesideLarge {
  std::vector<double> micros;  ///< of the empty calls, sorted
  int echoed = 0;              ///< large tensors that went there and back
  double milliseconds = 0;     ///< of each of them
};
/// Empty calls for that long beside tensors of `mib` MiB that another thread sends there and back all the time.
BesideLarge beside_large(rpc::Agent& agent, double seconds, int64_t mib);

}  // namespace tendril::bench
