#pragma once

#include <atomic>
#include <cstdint>
#include <string>

namespace tendril::rpc {

class InboundCall;

/// A function that others may call, as the agent sees it. Lives as long as the process.
struct ServedFunction {
  std::string name;  ///< for errors and traces
  /// Reads the arguments and runs the function, on a pool thread with the call's CallContext current. It replies
  /// through the InboundCall, or moves it elsewhere and replies later, from any thread. What it throws becomes the
  /// error reply.
  void (*invoke)(InboundCall& call) = nullptr;
  /// Moving average of the time that `invoke` takes, kept by the agent; 0 until it has run.
  mutable std::atomic<uint32_t> average_ns{0};
};

/// Which functions an agent serves. Thread-safe.
class FunctionTable {
 public:
  virtual ~FunctionTable() = default;
  virtual const ServedFunction* find(uint64_t function_id) const noexcept = 0;  ///< null: not served
};

}  // namespace tendril::rpc
