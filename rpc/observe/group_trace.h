#pragma once

#include <memory>
#include <string>

#include "tendril/rpc/agent.h"
#include "tendril/rpc/observe/trace.h"
#include "tendril/rpc/observe/trace_clock.h"

namespace tendril::rpc::detail {

/// A worker's trace while it is in a group: from the agent's start to the file (trace.h). Does nothing where none was
/// asked for. Not thread-safe.
class GroupTrace {
 public:
  /// `path` is what the options say; empty: TENDRIL_TRACE, or no trace. Before the agent's first peer. `group` tells
  /// this run from others that write to the same file. If the file cannot be written, logs a warning and
  /// records nothing.
  void start(Agent& agent, std::string path, const std::string& group);
  /// Compares this worker's clock with rank 0's, once all have met. Throws what calls throw.
  void measure(Agent& agent, Clock::time_point deadline);
  /// Again, before it leaves, for 5 s at most. Does not throw: where rank 0 is gone the first one has to do.
  void measure_again(Agent& agent, Clock::time_point deadline) noexcept;
  /// Adds this worker to the file, once. Returns why it could not, or "". Does not throw.
  std::string write() noexcept;

 private:
  std::shared_ptr<Trace> trace_;
  std::string group_;
  ClockFit clock_;
};

}  // namespace tendril::rpc::detail
