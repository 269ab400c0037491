#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <string>

#include "tendril/rpc/wire/hello.h"
#include "tendril/rpc/wire/message.h"
#include "tendril/rpc/worker.h"

namespace tendril::rpc::detail {

/// What an agent tells those who keep its group together (launch/). On the leader's thread, one call at a time.
class GroupEvents {
 public:
  struct Refusal {
    RefusalKind kind = RefusalKind::usage;
    std::string text;
  };

  virtual ~GroupEvents() = default;

  /// Somebody who has proven the key, or is of this user, would like to join the group that meets at this agent. What
  /// is returned is why not.
  virtual std::optional<Refusal> asked(const Hello& theirs) = 0;
  /// A connection was refused: from where, and why.
  virtual void refused(const std::string& who) = 0;
  /// A session is known by its peer's incarnation: the end of one may be told after the next has begun.
  virtual void connected(const WorkerInfo& peer, uint64_t incarnation) = 0;
  /// A message of kind `group`. Throws MessageError for bytes that cannot be read: the session then ends.
  virtual void received(const WorkerInfo& from, uint64_t incarnation, Bytes payload) = 0;
  struct Loss {
    WorkerInfo peer;
    uint64_t incarnation = 0;  ///< the peer's
    bool cut_off = false;      ///< there was a connection, and the peer has not said goodbye
    std::string why;
  };
  virtual void lost(const Loss& loss) = 0;
  /// Whether a lost session with that peer, which may live, is followed by another one. If so, and if the peer is still
  /// a member, `lost` begins it. Any thread.
  virtual bool restores(const WorkerInfo& peer) const = 0;
  /// Whether that peer's silence is to be noticed also while it owes nothing: by rank 0 that of every member, by the
  /// others that of rank 0.
  virtual bool awaits(const WorkerInfo& peer) const = 0;
};

}  // namespace tendril::rpc::detail
