#pragma once

#include <exception>
#include <memory>

#include "tendril/rpc/call_context.h"
#include "tendril/rpc/wire/message.h"
#include "tendril/rpc/wire/wire.h"

namespace tendril::rpc {

class LinkEvents;

/// One connection to one peer, after the handshake. `send` may be called by any thread.
class Link {
 public:
  virtual ~Link() = default;

  /// Nothing is delivered before this is called, once, by Agent::add_peer. The link keeps `events` until it has
  /// reported `closed`.
  virtual void start(std::shared_ptr<LinkEvents> events) = 0;

  /// Queues the message. Messages of one kind from one thread leave in order, except that others may overtake large
  /// requests and replies (outgoing.h). Never blocks, and never throws for a broken connection: `closed` reports it.
  /// Returns false if the link was already closed, in which case the message certainly never left. Throws MessageError
  /// if the message exceeds the peer's limits. A request waits in the link until there is room for it: until the peer
  /// has started enough earlier requests, and not too much is queued for writing.
  virtual bool send(Message&& message) = 0;
  /// Whether that request, which `send` accepted, waits for room.
  virtual bool waits_for_room(uint64_t /*call_id*/) const noexcept { return false; }
  /// Blocks while that request waits for room, at most until `deadline`; a handler's slot is free meanwhile.
  /// Returns at once if this thread must not block.
  virtual void wait_for_room(uint64_t /*call_id*/, Clock::time_point /*deadline*/) {}
  /// Removes a request that waits for room. Returns false if it has left, or was never accepted.
  virtual bool withdraw(uint64_t /*call_id*/) noexcept { return false; }
  /// Called when the call of a request has ended without a reply. Copies the elements that have not been written yet,
  /// so the caller may change its tensors once this returns. Waits for a system call that reads them. Must not be
  /// called on a thread that is sending over this link.
  virtual void call_ended(const std::shared_ptr<SentTensors>& /*tensors*/) noexcept {}

  /// Records that a received request was started or dropped: the peer may send as many bytes (request_cost) again. Any
  /// thread.
  virtual void request_started(uint64_t /*cost*/) noexcept {}
  /// Whether more is queued than the limit allows. No further request of this peer should then be started, because its
  /// reply would have to be kept. `uncongested` reports the end. Any thread.
  virtual bool congested() const noexcept { return false; }
  /// The peer's limits for one message.
  virtual const Limits& peer_limits() const noexcept {
    static const Limits usual;
    return usual;
  }
  /// Replaces a connection over which the peer gives no sign of life. If no other one is made before `ends`, `closed`
  /// is called with `reason`. Returns false if the link cannot replace it. On the leader's thread.
  virtual bool replace_connection(Clock::time_point /*ends*/, std::exception_ptr /*reason*/) { return false; }
  virtual void close() noexcept = 0;
  virtual const char* transport() const noexcept = 0;      ///< "unix", "tcp", "tls"
  virtual uint32_t session() const noexcept { return 1; }  ///< the session's number, as of the last connection made

  /// The id of the process at the other end, according to the kernel; 0 if unknown or on another host.
  virtual int peer_process() const noexcept { return 0; }

  struct Gauges {
    uint64_t bytes_sent = 0, bytes_received = 0;
    uint64_t queued_bytes = 0;                                   ///< accepted by `send`, not yet written
    Clock::time_point last_received = Clock::time_point::max();  ///< max: a link that cannot fall silent
    bool connected = true;                                       ///< false: it waits for a connection
    bool begun = true;                                           ///< false: it has never had a connection
  };
  virtual Gauges gauges() const noexcept { return {}; }
};

/// Receives a link's events: one call at a time per link, on the leader's thread (docs/rpc.md), as an I/O callback.
/// `closed` is called exactly once, as the last event, even if `start` finds the link already closed.
class LinkEvents {
 public:
  virtual ~LinkEvents() = default;
  /// `when` is approximately when the message was read.
  virtual void received(Link& link, Message&& message, Clock::time_point when) = 0;
  virtual void closed(Link& link, std::exception_ptr reason) = 0;
  virtual void uncongested(Link& /*link*/) {}
  /// The connection was lost, or there never was one and a message is to be sent. The link waits for a connection, and
  /// keeps messages sent meanwhile. If none is made in time, `closed` follows.
  virtual void disconnected(Link& /*link*/) {}
  /// That request was in flight when the connection was lost, and cannot be sent again. It certainly did not arrive.
  virtual void not_sent_again(Link& /*link*/, uint64_t /*call_id*/, std::exception_ptr /*why*/) {}
};

}  // namespace tendril::rpc
