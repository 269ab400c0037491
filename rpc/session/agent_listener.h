#pragma once

#include <cstdint>
#include <exception>
#include <memory>

#include "tendril/rpc/call_context.h"
#include "tendril/rpc/wire/message.h"
#include "tendril/rpc/worker.h"

namespace tendril::rpc {

/// A received request or reply with references, held until the owners have confirmed them. If it is destroyed without a
/// call of either function, the message is dropped, because the same message is held already.
class ParkedMessage {
 public:
  explicit ParkedMessage(Message&& received) : message(std::move(received)) {}
  virtual ~ParkedMessage() = default;

  /// Dispatches the request, or completes the call with the reply. `message.references` has been filled in. At most one
  /// of the two functions is called, once, on any thread, with no locks held.
  virtual void resume(Message&& message) noexcept = 0;
  /// Answers the request with the error, or fails the call with it, because a reference was lost.
  virtual void refuse(std::exception_ptr error) noexcept = 0;

  Message message;
};

/// The events that an agent reports to the RRef tables (rref_context.h). Calls about one peer are made one at a time,
/// except `on_send` and those marked "any thread". They must not block.
///
/// A *session* with a peer lasts from `peer_joined` to `peer_lost`. Requests of one session are numbered 1, 2, 3, ...
/// by their sender (Message::call_id), so that the receiver can recognise one that it has never seen.
class AgentListener {
 public:
  virtual ~AgentListener() = default;

  virtual void peer_joined(const WorkerInfo& peer, uint64_t incarnation) = 0;
  virtual void peer_lost(const WorkerInfo& peer, const std::exception_ptr& reason) = 0;
  /// Throws MessageError if the bytes cannot be read; the connection is then closed.
  virtual void control_received(const WorkerInfo& from, Bytes payload) = 0;

  /// Called before a request or reply with references is sent to another worker. Fills in `message.forks` from
  /// `message.references` and clears the latter. Runs on the sending threads, on any number of them at a time. If it
  /// throws, the call (or the reply) fails with that error.
  virtual void on_send(const WorkerInfo& to, Message& message) = 0;
  /// Called if the message was not sent after `on_send` (too large, or the link was closed). Any thread.
  virtual void message_not_sent(const WorkerInfo& to, MessageKind kind, uint64_t call_id) noexcept = 0;
  /// Called when a request or reply with non-empty `forks` has arrived.
  virtual void message_arrived(const WorkerInfo& from, std::unique_ptr<ParkedMessage> parked) noexcept = 0;

  /// Called when a call to `to` has failed at its deadline or by cancellation. Its request may be anywhere, and its
  /// reply will be dropped. Any thread.
  virtual void call_cancelled(const WorkerInfo& to, uint64_t call_id) noexcept = 0;

  /// Called when the agent shuts down. The agent must not be used from now on. This is the last call.
  virtual void agent_closing() noexcept = 0;

  /// Whether the peer owes an answer to a control message. If so, its silence is detected.
  virtual bool awaits(const WorkerInfo&) const noexcept { return false; }

  /// Called at the latest at the time that it last returned (`max()`: not needed), and possibly more often.
  virtual Clock::time_point on_timer(Clock::time_point now) noexcept = 0;
};

}  // namespace tendril::rpc
