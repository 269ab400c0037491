#pragma once

#include <algorithm>
#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "tendril/rpc/call_context.h"

namespace tendril::rpc {

/// The purposes of gatherings (gatherings.h). All workers in a gathering must name the same one.
namespace phases {
inline constexpr const char* kJoined = "joined";
inline constexpr const char* kBarrier = "barrier";
inline constexpr const char* kAllGather = "all_gather";
// The phases of a graceful shutdown, in order.
inline constexpr const char* kShutdown = "shutdown";
inline constexpr const char* kCallsFinished = "calls finished";
inline constexpr const char* kLast = "references released";

inline bool is_of_shutdown(std::string_view phase) {
  return phase == kShutdown || phase == kCallsFinished || phase == kLast;
}
}  // namespace phases

namespace detail {

/// Returns the time left until a deadline, at least 1 ms, for functions that take 0 as "no limit"; 0 for a deadline of
/// time_point::max().
inline std::chrono::milliseconds left_until(Clock::time_point deadline) {
  using std::chrono::milliseconds;
  if (deadline == Clock::time_point::max()) return milliseconds(0);
  return std::max(milliseconds(1), std::chrono::ceil<milliseconds>(deadline - Clock::now()));
}

/// A worker's part in the gatherings of a shutdown.
class Gathering {
 public:
  virtual ~Gathering() = default;

  /// Takes part in the next gathering and returns all contributions, by rank; those of missing workers whose loss is
  /// accepted are empty. The rendezvous ends the gathering when the timeout of any waiting worker expires. A timeout of
  /// 0 means no limit: the worker waits as long as the others are alive. Throws TimeoutError, PeerLostError,
  /// UsageError.
  virtual std::vector<std::string> gather(const std::string& phase, std::string contribution,
                                          std::chrono::milliseconds timeout) = 0;
  /// Throws if this worker already knows that the next gathering cannot succeed. Does not wait.
  virtual void check() = 0;
  virtual const std::vector<std::string>& names() const noexcept = 0;  ///< of the workers, by rank
};

}  // namespace detail
}  // namespace tendril::rpc
