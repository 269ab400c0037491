#include "tendril/rpc/observe/trace_clock.h"

#include <algorithm>

#include "tendril/rpc/call.h"

namespace tendril::rpc::detail {

int64_t trace_clock_now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count();
}

ClockOffset measure_clock(Agent& agent, Clock::time_point deadline) {
  constexpr int kTries = 16;
  ClockOffset best{.at_ns = trace_clock_now()};
  if (agent.self().id == 0) return best;
  best.error_ns = INT64_MAX;
  for (int i = 0; i < kTries; ++i) {
    const auto left = std::chrono::duration_cast<std::chrono::microseconds>(deadline - Clock::now());
    const int64_t before = trace_clock_now();
    const int64_t there =
        rpc_sync<&trace_clock_now>(agent, 0, {.timeout = std::max(left, std::chrono::microseconds(1))});
    const int64_t after = trace_clock_now();
    const int64_t error = (after - before + 1) / 2;
    if (error >= best.error_ns) continue;
    best = {.at_ns = before + error, .offset_ns = there - (before + error), .error_ns = error};
  }
  return best;
}

}  // namespace tendril::rpc::detail
