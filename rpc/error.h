#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tendril/tensor/error.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::rpc {

/// Base class of all errors of calls, waits and group operations.
class RpcError : public Error {
 public:
  using Error::Error;
};

/// The deadline passed. The callee may still be running; its late reply is dropped.
class TimeoutError : public RpcError {
 public:
  using RpcError::RpcError;
};

/// The call was cancelled by its caller (through the stop token) or by the agent's shutdown.
class CancelledError : public RpcError {
 public:
  using RpcError::RpcError;
};

/// The peer died or its connection broke.
class PeerLostError : public RpcError {
 public:
  PeerLostError(const std::string& message, bool may_have_run) : RpcError(message), may_have_run_(may_have_run) {}
  /// Returns false only if the request is known never to have left this process.
  bool may_have_run() const noexcept { return may_have_run_; }

 private:
  bool may_have_run_;
};

/// The origin of an error: the worker that threw it, and the workers whose nested calls passed it on.
struct ErrorPath {
  static constexpr std::size_t kShown = 4;  ///< limit on names kept, because calls may be nested hundreds deep

  std::string worker = {};            ///< the worker that threw it
  std::vector<std::string> via = {};  ///< the workers that passed it on, first one first; at most kShown
  uint64_t more = 0;                  ///< number of further workers that passed it on

  /// Adds a worker to the end of the path.
  void passed_on_by(std::string name);
  std::string to_string() const;  ///< "worker 'w3'", or "worker 'w3' (by way of 'w2', 'w1')"
};

/// The callee's function threw. `type` is the name of the exception's C++ type on the callee, and `message` its what().
/// If the error came from a nested call that the callee made, it keeps its original worker, type and text; `path` lists
/// the workers that passed it on.
class RemoteError : public RpcError {
 public:
  RemoteError(std::string worker, std::string type, std::string message)
      : RemoteError(ErrorPath{std::move(worker), {}, 0}, std::move(type), std::move(message)) {}
  RemoteError(ErrorPath path, std::string type, std::string message);
  /// The worker on which it was thrown.
  const std::string& worker() const noexcept { return path_.worker; }
  /// The name of the exception's C++ type.
  const std::string& type() const noexcept { return type_; }
  /// The exception's what().
  const std::string& message() const noexcept { return message_; }
  /// The worker that threw it, and the workers that passed it on.
  const ErrorPath& path() const noexcept { return path_; }

 private:
  ErrorPath path_;
  std::string type_, message_;
};

/// The callee does not serve the function that was called.
class UnknownFunctionError : public RpcError {
 public:
  using RpcError::RpcError;
};

/// A message cannot be read: it is truncated, exceeds a limit, or has a different type.
class MessageError : public RpcError {
 public:
  using RpcError::RpcError;
};

/// The library was used incorrectly: a call before init_rpc or after shutdown, a second init_rpc, an unknown worker, or
/// an invalid option.
class UsageError : public RpcError {
 public:
  using RpcError::RpcError;
};

/// A reference cannot be used: its owner is gone (owner_lost), its creation failed, or its fork can no longer be
/// confirmed (reference_lost).
class RRefError : public RpcError {
 public:
  using RpcError::RpcError;
};

}  // namespace tendril::rpc

TENDRIL_API_END
