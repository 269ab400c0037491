#pragma once

#include <cstdint>
#include <string>

#include "tendril/rpc/system/run_time.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::rpc {

class InboundCall;

/// A function that peers may call, as the agent sees it. It lives as long as the process.
struct ServedFunction {
  std::string name;    ///< for errors and traces
  std::string remedy;  ///< what registers it in a program that does not call it: "rpc::serve<&train>()"
  /// Reads the arguments and runs the function, on a pool thread with the call's CallContext current. It replies
  /// through the InboundCall, or moves it elsewhere and replies later, from any thread. An exception becomes the error
  /// reply.
  void (*invoke)(InboundCall& call) = nullptr;
  /// Runs the function at once on the thread that read the request, as an I/O callback, without another thread or a
  /// slot. It must not block, and must not take longer than reading another message. It must post longer work to the
  /// executor.
  bool on_reader = false;
  /// `invoke` may put the call aside before the function runs, and calls InboundCall::begin when the function starts.
  /// Until then the request uses its caller's credit.
  bool may_park = false;
  mutable detail::RunTime run_time;  ///< of `invoke`, recorded by the agent
};

/// The functions that an agent serves. Thread-safe.
class FunctionTable {
 public:
  virtual ~FunctionTable() = default;
  virtual const ServedFunction* find(uint64_t function_id) const noexcept = 0;  ///< null: not served
};

}  // namespace tendril::rpc

TENDRIL_API_END
