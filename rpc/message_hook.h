#pragma once

#include <exception>

#include "tendril/rpc/call_context.h"
#include "tendril/rpc/wire/message.h"
#include "tendril/rpc/worker.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::rpc {

/// Sees every user request and reply with its tensor list, on the thread that sends or receives it. dist/ records send
/// and recv nodes here; rpc/ knows nothing of gradients. Implementations are thread-safe and may throw: the call then
/// fails with that error.
class MessageHook {
 public:
  virtual ~MessageHook() = default;
  virtual void before_send(const WorkerInfo& to, Message& request) = 0;  ///< caller, CallContext of the call current
  virtual void after_receive(const WorkerInfo& from, Message& request) = 0;  ///< callee, before the arguments are read
  virtual void before_reply(const WorkerInfo& to, Message& reply) = 0;   ///< callee, CallContext of the handler current
  virtual void after_reply(const WorkerInfo& from, Message& reply) = 0;  ///< caller, before the result is read

  /// The session with a peer has ended: it died, was cut off or has shut down. Any thread; must not block or throw.
  virtual void peer_lost(const WorkerInfo&, const std::exception_ptr&) noexcept {}
  /// Called after `peer_lost` when a new session begins with the same incarnation of the peer, which has been a member
  /// all the time. Nothing is carried over from the earlier session. Any thread; must not block or throw.
  virtual void peer_returned(const WorkerInfo&) noexcept {}
  /// The agent has been shut down, and from now on it must not be used. Its threads have ended, but for handlers that
  /// did not by the deadline (Agent::shutdown): what they still say is heard and goes nowhere.
  virtual void agent_closing() noexcept {}
};

}  // namespace tendril::rpc

TENDRIL_API_END
