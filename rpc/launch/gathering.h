#pragma once

#include <algorithm>
#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "tendril/rpc/call_context.h"

namespace tendril::rpc {

/// What gatherings (gatherings.h) are for: all that take part say the same.
namespace phases {
inline constexpr const char* kJoined = "joined";
inline constexpr const char* kBarrier = "barrier";
inline constexpr const char* kAllGather = "all_gather";
// Those of a graceful shutdown, in order.
inline constexpr const char* kShutdown = "shutdown";
inline constexpr const char* kCallsFinished = "calls finished";
inline constexpr const char* kLast = "references released";

inline bool is_of_shutdown(std::string_view phase) {
  return phase == kShutdown || phase == kCallsFinished || phase == kLast;
}
}  // namespace phases

namespace detail {

/// What is left until a deadline, for those who take a duration and read 0 as "no end"; 1 ms where it has passed.
inline std::chrono::milliseconds left_until(Clock::time_point deadline) {
  using std::chrono::milliseconds;
  if (deadline == Clock::time_point::max()) return milliseconds(0);
  return std::max(milliseconds(1), std::chrono::ceil<milliseconds>(deadline - Clock::now()));
}

/// How a worker takes part in the gatherings of a shutdown.
class Gathering {
 public:
  virtual ~Gathering() = default;

  /// Takes part in the next gathering and returns all contributions, by rank; empty ones where workers are missing
  /// whose loss is accepted. The rendezvous ends it when the timeout of any worker that waits has passed; 0 = none: it
  /// waits for others as long as they live. Throws TimeoutError, PeerLostError, UsageError.
  virtual std::vector<std::string> gather(const std::string& phase, std::string contribution,
                                          std::chrono::milliseconds timeout) = 0;
  /// Throws if the next gathering cannot come about, as far as is known; does not wait.
  virtual void check() = 0;
  virtual const std::vector<std::string>& names() const noexcept = 0;  ///< of the workers, by rank
};

}  // namespace detail
}  // namespace tendril::rpc
