#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <string>

#include "tendril/rpc/wire/hello.h"
#include "tendril/rpc/wire/message.h"
#include "tendril/rpc/worker.h"

namespace tendril::rpc::detail {

/// The events that an agent reports to the code that maintains its group (launch/). Called on the leader thread, one
/// call at a time.
class GroupEvents {
 public:
  struct Refusal {
    RefusalKind kind = RefusalKind::usage;
    std::string text;
  };

  virtual ~GroupEvents() = default;

  /// An authenticated peer asks to join the group that meets at this agent. Returns why it is refused, or nothing.
  virtual std::optional<Refusal> asked(const Hello& theirs) = 0;
  /// A connection was refused. `who`: from where, and why.
  virtual void refused(const std::string& who) = 0;
  /// A session with a connection has begun. The peer's incarnation identifies it, because its end may be reported after
  /// the next session has begun.
  virtual void connected(const WorkerInfo& peer, uint64_t incarnation) = 0;
  /// A message of kind `group` has arrived. Throws MessageError if it cannot be read; the session then ends.
  virtual void received(const WorkerInfo& from, uint64_t incarnation, Bytes payload) = 0;
  struct Loss {
    WorkerInfo peer;
    uint64_t incarnation = 0;  ///< the peer's
    bool cut_off = false;      ///< there was a connection, and the peer has not said goodbye
    std::string why;
  };
  virtual void lost(const Loss& loss) = 0;
  /// Returns whether another session follows a lost one with that peer, which may be alive. If so, `lost` begins it,
  /// provided that the peer is still a member. Any thread.
  virtual bool restores(const WorkerInfo& peer) const = 0;
  /// Returns whether that peer's silence must be detected even while it owes nothing. Rank 0 watches every member; the
  /// others watch rank 0.
  virtual bool awaits(const WorkerInfo& peer) const = 0;
};

}  // namespace tendril::rpc::detail
