#pragma once

#include <string>
#include <utility>

#include "tendril/tensor/error.h"

namespace tendril::rpc {

/// Every failure of a call, a wait or a group operation is one of these.
class RpcError : public Error {
 public:
  using Error::Error;
};

/// The deadline passed. The callee may still be running; its late reply is dropped.
class TimeoutError : public RpcError {
 public:
  using RpcError::RpcError;
};

/// The call was given up by its caller (stop token) or by the agent's shutdown.
class CancelledError : public RpcError {
 public:
  using RpcError::RpcError;
};

/// The peer died or its connection broke.
class PeerLostError : public RpcError {
 public:
  PeerLostError(const std::string& message, bool may_have_run) : RpcError(message), may_have_run_(may_have_run) {}
  /// False only if the request certainly never left this process.
  bool may_have_run() const noexcept { return may_have_run_; }

 private:
  bool may_have_run_;
};

/// The callee's function threw. `type` is the C++ type's name there, `message` its what().
class RemoteError : public RpcError {
 public:
  RemoteError(std::string worker, std::string type, std::string message)
      : RpcError("error on worker '" + worker + "': " + type + ": " + message),
        worker_(std::move(worker)),
        type_(std::move(type)),
        message_(std::move(message)) {}
  const std::string& worker() const noexcept { return worker_; }
  const std::string& type() const noexcept { return type_; }
  const std::string& message() const noexcept { return message_; }

 private:
  std::string worker_, type_, message_;
};

/// The callee does not serve the function that was called.
class UnknownFunctionError : public RpcError {
 public:
  using RpcError::RpcError;
};

/// Bytes that cannot be read: truncated, over a limit, of another type.
class MessageError : public RpcError {
 public:
  using RpcError::RpcError;
};

/// A call before init_rpc, after shutdown, or a second init_rpc; an unknown worker; a bad option.
class UsageError : public RpcError {
 public:
  using RpcError::RpcError;
};

/// A reference whose owner is gone (owner_lost), whose creation failed, or whose fork can no longer be confirmed
/// (reference_lost).
class RRefError : public RpcError {
 public:
  using RpcError::RpcError;
};

}  // namespace tendril::rpc
