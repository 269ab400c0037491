#pragma once

#include <exception>
#include <memory>

#include "tendril/rpc/call_context.h"
#include "tendril/rpc/message.h"

namespace tendril::rpc {

class LinkEvents;

/// One connection to one peer, after the handshake. `send` may be called by any thread.
class Link {
 public:
  virtual ~Link() = default;

  /// Nothing is delivered before this is called, once, by Agent::add_peer. The link keeps `events` until it has
  /// reported `closed`.
  virtual void start(std::shared_ptr<LinkEvents> events) = 0;

  /// Takes the message; per calling thread, messages leave in order. Never throws for a broken connection: `closed`
  /// reports it. Returns false if the link was already closed, so that the message certainly never left. Blocks only
  /// for back-pressure (bytes queued above the link's limit), and then gives up a handler's slot.
  virtual bool send(Message&& message) = 0;
  /// False: stop reading, so that the peer's writes back up; true: go on. Any thread.
  virtual void set_reading(bool) noexcept {}
  virtual void close() noexcept = 0;
  virtual const char* transport() const noexcept = 0;  ///< "unix", "tcp", "memory"

  struct Gauges {
    uint64_t bytes_sent = 0, bytes_received = 0;
    uint64_t queued_bytes = 0;                                   ///< taken by `send`, not yet written
    Clock::time_point last_received = Clock::time_point::max();  ///< max: a link that cannot fall silent
  };
  virtual Gauges gauges() const noexcept { return {}; }
};

/// Whom a link reports to: one call at a time per link, on the leader's thread (docs/rpc.md), as an I/O callback.
/// `closed` comes exactly once, last, also if `start` finds the link closed already.
class LinkEvents {
 public:
  virtual ~LinkEvents() = default;
  virtual void received(Link& link, Message&& message) = 0;
  virtual void closed(Link& link, std::exception_ptr reason) = 0;
};

}  // namespace tendril::rpc
