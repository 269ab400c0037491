#pragma once

#include <exception>

#include "tendril/rpc/call_context.h"
#include "tendril/rpc/wire/message.h"
#include "tendril/rpc/worker.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::rpc {

/// A hook that sees every user request and reply with its list of tensors, on the thread that sends or receives it.
/// dist/ uses it to record send and recv nodes, so that rpc/ does not depend on autograd. Implementations must be
/// thread-safe. They may throw; the call then fails with that error.
class MessageHook {
 public:
  virtual ~MessageHook() = default;
  /// Called on the caller. The CallContext of the call is current.
  virtual void before_send(const WorkerInfo& to, Message& request) = 0;
  /// Called on the callee, before the arguments are read.
  virtual void after_receive(const WorkerInfo& from, Message& request) = 0;
  /// Called on the callee. The CallContext of the handler is current.
  virtual void before_reply(const WorkerInfo& to, Message& reply) = 0;
  /// Called on the caller, before the result is read.
  virtual void after_reply(const WorkerInfo& from, Message& reply) = 0;

  /// Called when the session with a peer has ended: the peer died, was cut off or has shut down. On any thread; must
  /// not block.
  virtual void peer_lost(const WorkerInfo&, const std::exception_ptr&) noexcept {}
  /// Called after `peer_lost` when a new session begins with the same incarnation of the peer, which has remained a
  /// member. Nothing is carried over from the earlier session. On any thread; must not block.
  virtual void peer_returned(const WorkerInfo&) noexcept {}
  /// Called when the agent has been shut down; it must not be used from now on. Its threads have ended, except those
  /// whose handlers did not end by the deadline (Agent::shutdown). Messages of such handlers still reach this hook, but
  /// are not sent.
  virtual void agent_closing() noexcept {}
};

}  // namespace tendril::rpc

TENDRIL_API_END
