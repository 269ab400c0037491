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

/// The call was cancelled by its caller (stop token) or by the agent's shutdown.
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

/// Where an error came from: the worker that threw it, and those whose own calls failed with it before.
struct ErrorPath {
  static constexpr std::size_t kShown = 4;  ///< names kept: calls may nest hundreds deep

  std::string worker = {};            ///< that threw it
  std::vector<std::string> via = {};  ///< those that passed it on, the first of them first; at most kShown
  uint64_t more = 0;                  ///< and how many after these

  /// Adds a worker at the end.
  void passed_on_by(std::string name);
  std::string to_string() const;  ///< "worker 'w3'", or "worker 'w3' (by way of 'w2', 'w1')"
};

/// The callee's function threw. `type` is the C++ type's name there, `message` its what(). An error of a call that the
/// callee made in its turn keeps the worker, the type and the text it was thrown with; `path` says how it came here.
class RemoteError : public RpcError {
 public:
  RemoteError(std::string worker, std::string type, std::string message)
      : RemoteError(ErrorPath{std::move(worker), {}, 0}, std::move(type), std::move(message)) {}
  RemoteError(ErrorPath path, std::string type, std::string message);
  /// On which worker it was thrown.
  const std::string& worker() const noexcept { return path_.worker; }
  /// The exception's C++ type, as text.
  const std::string& type() const noexcept { return type_; }
  /// Its what().
  const std::string& message() const noexcept { return message_; }
  /// The workers that passed it on.
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

TENDRIL_API_END
