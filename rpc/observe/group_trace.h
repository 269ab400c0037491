#pragma once

#include <memory>
#include <string>

#include "tendril/rpc/agent.h"
#include "tendril/rpc/observe/trace_clock.h"
#include "tendril/rpc/threads/trace.h"

namespace tendril::rpc::detail {

/// A worker's trace while it is in a group, from the agent's start until the trace is written to the file (trace.h).
/// Does nothing if no trace was requested. Not thread-safe.
class GroupTrace {
 public:
  /// `path` is the path in the options; if it is empty, TENDRIL_TRACE applies, and without either, nothing is recorded.
  /// Call it before the agent has its first peer. `group` distinguishes this run from others that write to the same
  /// file. If the file cannot be written, logs a warning and records nothing.
  void start(Agent& agent, std::string path, const std::string& group);
  /// Compares this worker's clock with rank 0's, once all workers have met. Throws the errors of calls.
  void measure(Agent& agent, Clock::time_point deadline);
  /// Compares the clocks again, before this worker leaves, for at most 5 s. Does not throw: if rank 0 is gone, the
  /// first measurement is used.
  void measure_again(Agent& agent, Clock::time_point deadline) noexcept;
  /// Adds this worker to the file, once. Returns the problem if it could not, or an empty string. Does not throw.
  std::string write() noexcept;

 private:
  std::shared_ptr<Trace> trace_;
  std::string group_;
  ClockFit clock_;
};

}  // namespace tendril::rpc::detail
