#pragma once

// The parts of RRefTable that its source files share. docs/rref.md explains the terms.

#include <map>
#include <utility>

#include "tendril/rpc/call/call_filter.h"
#include "tendril/rpc/call/rref_state.h"
#include "tendril/rpc/error.h"
#include "tendril/rpc/reference/rref_table.h"
#include "tendril/rpc/system/mutex.h"

namespace tendril::rpc {

/// A received message that waits until all its references are decided.
struct RRefTable::Arrival : std::enable_shared_from_this<Arrival> {
  std::unique_ptr<ParkedMessage> parked;
  WorkerId from = -1;
  uint64_t session = 0;     // serial of the sender's session
  std::size_t missing = 1;  // number of undecided references, plus one while they are being counted
  Clock::time_point deadline = Clock::time_point::max();  // for a request: its caller's deadline
  uint64_t number = 0;                                    // sequence number of an arrival with a deadline
  bool expired = false;  // has been refused; its references are still kept until they are decided
  std::exception_ptr error;
};

/// An object of this worker that other workers refer to, or will refer to.
struct RRefTable::Owned {
  std::shared_ptr<RRefState> state;
  /// False if another message has mentioned the reference, but the call that creates the object has not arrived yet.
  bool exists = false;
  Clock::time_point since = {};
  std::unordered_set<ForkId> forks;                   // its users
  std::vector<std::pair<ForkId, WorkerId>> requests;  // fork requests that wait until it exists
  std::vector<std::shared_ptr<Arrival>> waiting;      // received messages that wait until it exists
};

/// A reference of this worker to an object of another worker.
struct RRefTable::User {
  RRefId rref;
  WorkerId owner = -1;
  uint64_t owner_incarnation = 0;
  std::weak_ptr<RRefState> state;
  Clock::time_point since = {};
  bool created_here = false;  // by a call of this worker, which also confirms the state
  bool sent = false;          // created_here: the call has been sent
  bool known = false;         // the owner knows this fork
  bool asked = false;         // the owner has been asked and has not answered
  bool dropped = false;       // has no handle left, and is deleted once it is `known`
  bool unreleased = false;    // has no handle left, but memory ran out before the owner could be notified
  std::exception_ptr error;   // set if lost; the owner need not be notified any more
  std::vector<std::shared_ptr<Arrival>> waiting;
};

/// The references of a message in transit, until its receiver has confirmed or rejected the message.
struct RRefTable::Transfer {
  std::vector<std::shared_ptr<RRefState>> parents;  // kept alive meanwhile (G2)
  std::vector<ForkId> registered;                   // forks of this worker's own objects, already registered as users
  std::optional<ForkDescriptor> creation;
  std::size_t forks = 0;
};

/// A session between this worker and one incarnation of a peer.
struct RRefTable::Session {
  WorkerInfo peer;
  uint64_t incarnation = 0;
  uint64_t serial = 0;  // unique among the sessions of this table, even those with the same incarnation
  ControlChannel channel;
  std::vector<ControlRecord> outbox;
  bool urgent = false;                                   // the outbox must be sent now
  Clock::time_point lazy_at = Clock::time_point::max();  // latest time to send the outbox
  std::unordered_set<ForkId> held;                       // the peer's forks of this worker's objects
  std::size_t asked = 0;                                 // users here whose forks the peer has not yet decided
  uint64_t first_creation = 1;  // the peer's creations before this one belonged to earlier sessions
  CallFilter creations;         // the peer's creations that have arrived
  bool follows = false;  // an earlier session had the same incarnation, and the peer has not sent creations_from yet
  bool asked_creations = false;           // the peer has been asked for creations_from
  std::optional<uint64_t> own_creations;  // first creation of this session, still to be sent before any other record
  std::map<TransferKey, Transfer> transfers;  // messages to the peer
  std::unordered_set<uint64_t> cancelled;     // cancelled calls of the peer that are still being served here
  std::deque<uint64_t> recent_replies;        // calls whose replies with references have been accepted
};

/// The actions that an event requires once the lock has been released.
struct RRefTable::Effects {
  std::vector<std::pair<WorkerId, Bytes>> batches;
  std::vector<std::shared_ptr<RRefState>> confirmed;
  std::vector<std::pair<std::shared_ptr<RRefState>, std::exception_ptr>> failed;
  std::vector<std::shared_ptr<Arrival>> arrivals;
  std::vector<std::shared_ptr<Arrival>> expired;
  std::vector<std::shared_ptr<RRefState>> released;  // to be destroyed
  std::vector<std::unique_ptr<ParkedMessage>> ignored;
};

/// Makes the number of an RRefId: the owner's rank in the upper 16 bits, and below it a counter that the creator keeps
/// for each owner. So the owner can tell from the number alone which creations of a peer it has not seen yet.
inline uint64_t rref_number(WorkerId owner, uint64_t counter) noexcept {
  return static_cast<uint64_t>(owner) << 48 | counter;
}
inline WorkerId rref_owner(const RRefId& id) noexcept { return static_cast<WorkerId>(id.number >> 48); }
inline uint64_t rref_counter(const RRefId& id) noexcept { return id.number & kCounterMask; }

inline std::exception_ptr rref_error(const std::string& text) { return std::make_exception_ptr(RRefError(text)); }
std::string rref_text(const RRefId& id);  ///< returns "RRef 3.17"

/// The scope of one event. Holds the lock while the event changes the table, and performs the resulting effects after
/// it has released the lock.
class RRefTable::Event {
 public:
  explicit Event(RRefTable& table) : table_(table), lock_(table.mutex_) {}
  ~Event() {
    try {
      table_.collect(effects);
    } catch (const std::bad_alloc&) {  // the next event or timer tries again
    }
    lock_.unlock();
    table_.perform(std::move(effects));
  }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  Effects effects;

 private:
  RRefTable& table_;
  std::unique_lock<detail::Mutex> lock_;
};

}  // namespace tendril::rpc
