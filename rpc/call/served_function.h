#pragma once

#include <cstdint>
#include <string>

#include "tendril/rpc/call/run_time.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::rpc {

class InboundCall;

/// A function that others may call, as the agent sees it. Lives as long as the process.
struct ServedFunction {
  std::string name;    ///< for errors and traces
  std::string remedy;  ///< what a program says that serves it without calling it: "rpc::serve<&train>()"
  /// Reads the arguments and runs the function, on a pool thread with the call's CallContext current. It replies
  /// through the InboundCall, or moves it elsewhere and replies later, from any thread. What it throws becomes the
  /// error reply.
  void (*invoke)(InboundCall& call) = nullptr;
  /// Run it at once on the thread that read the request, as an I/O callback: no hop, no slot. It must not block, and
  /// must take no longer than reading another message; what does is posted to the executor.
  bool on_reader = false;
  /// `invoke` may put the call aside before the function runs, and says InboundCall::begin when it does. Until then the
  /// request counts against what its caller may send.
  bool may_park = false;
  mutable detail::RunTime run_time;  ///< what `invoke` takes, kept by the agent
};

/// Which functions an agent serves. Thread-safe.
class FunctionTable {
 public:
  virtual ~FunctionTable() = default;
  virtual const ServedFunction* find(uint64_t function_id) const noexcept = 0;  ///< null: not served
};

}  // namespace tendril::rpc

TENDRIL_API_END
