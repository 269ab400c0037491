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

  /// Takes the message; per calling thread, messages of one kind leave in order, but that others may overtake large
  /// requests and replies (outgoing.h). Never blocks, and never throws for a
  /// broken connection: `closed` reports it. Returns false if the link was already closed, so that the message
  /// certainly never left. Throws MessageError for what the peer's limits do not allow. A request waits in the link
  /// while there is no room for it: while the peer has not started enough of the earlier ones, or too much is queued to
  /// be written.
  virtual bool send(Message&& message) = 0;
  /// Whether that request, which `send` took, waits for room.
  virtual bool waits_for_room(uint64_t /*call_id*/) const noexcept { return false; }
  /// Blocks while that request waits for room, at most until `deadline`; a handler's slot is free meanwhile.
  /// Returns at once where this thread must not block.
  virtual void wait_for_room(uint64_t /*call_id*/, Clock::time_point /*deadline*/) {}
  /// Takes a request back that waits for room. False: it has left, or was never taken.
  virtual bool withdraw(uint64_t /*call_id*/) noexcept { return false; }
  /// The call of a request has ended without a reply, and the caller may change its tensors when this returns: copies
  /// the elements that have not been written yet. Waits for a system call that reads them. Not on a thread that sends
  /// over this link.
  virtual void call_ended(const std::shared_ptr<SentTensors>& /*tensors*/) noexcept {}

  /// A received request is started, or dropped: the peer may send as many bytes (request_cost) again. Any thread.
  virtual void request_started(uint64_t /*cost*/) noexcept {}
  /// More is queued than its limit: of this peer, no further request should be started, for its reply would have to be
  /// kept. Any thread. `uncongested` reports the end.
  virtual bool congested() const noexcept { return false; }
  /// What the peer takes in one message.
  virtual const Limits& peer_limits() const noexcept {
    static const Limits usual;
    return usual;
  }
  /// Replaces a connection over which the peer gives no sign of life. If no other one is made before `ends`, `closed`
  /// is called with `reason`. Returns false if the link cannot replace it. On the leader's thread.
  virtual bool replace_connection(Clock::time_point /*ends*/, std::exception_ptr /*reason*/) { return false; }
  virtual void close() noexcept = 0;
  virtual const char* transport() const noexcept = 0;      ///< "unix", "tcp", "tls"
  virtual uint32_t session() const noexcept { return 1; }  ///< its number, as of the last connection made

  /// The process at the other end, by what the kernel says; 0: it does not say, or it is of another host.
  virtual int peer_process() const noexcept { return 0; }

  struct Gauges {
    uint64_t bytes_sent = 0, bytes_received = 0;
    uint64_t queued_bytes = 0;                                   ///< taken by `send`, not yet written
    Clock::time_point last_received = Clock::time_point::max();  ///< max: a link that cannot fall silent
    bool connected = true;                                       ///< false: it waits for a connection
    bool begun = true;                                           ///< false: it has never had one
  };
  virtual Gauges gauges() const noexcept { return {}; }
};

/// Whom a link reports to: one call at a time per link, on the leader's thread (docs/rpc.md), as an I/O callback.
/// `closed` comes exactly once, last, also if `start` finds the link closed already.
class LinkEvents {
 public:
  virtual ~LinkEvents() = default;
  /// `when`: about when it was read.
  virtual void received(Link& link, Message&& message, Clock::time_point when) = 0;
  virtual void closed(Link& link, std::exception_ptr reason) = 0;
  virtual void uncongested(Link& /*link*/) {}
  /// The connection was lost, or there never was one and something is to be sent: the link waits for another, and keeps
  /// what is sent meanwhile. If none comes in time `closed` follows.
  virtual void disconnected(Link& /*link*/) {}
  /// That request was on its way when the connection was lost, and cannot be sent again: it certainly did not arrive.
  virtual void not_sent_again(Link& /*link*/, uint64_t /*call_id*/, std::exception_ptr /*why*/) {}
};

}  // namespace tendril::rpc
