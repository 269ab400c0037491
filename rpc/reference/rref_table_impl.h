#pragma once

// The parts of RRefTable that its source files share. docs/rref.md explains the words.

#include <map>
#include <utility>

#include "tendril/rpc/error.h"
#include "tendril/rpc/reference/rref_state.h"
#include "tendril/rpc/reference/rref_table.h"
#include "tendril/rpc/threads/mutex.h"

namespace tendril::rpc {

/// A received message that waits until all its references are decided.
struct RRefTable::Arrival : std::enable_shared_from_this<Arrival> {
  std::unique_ptr<ParkedMessage> parked;
  WorkerId from = -1;
  uint64_t session = 0;     // the sender's
  std::size_t missing = 1;  // undecided references, and one for the time in which they are counted
  Clock::time_point deadline = Clock::time_point::max();  // of a request: its caller's
  uint64_t number = 0;                                    // counts those with a deadline
  bool expired = false;  // it has been refused; its references are kept until they are decided all the same
  std::exception_ptr error;
};

/// An object of this worker that others refer to, or are about to.
struct RRefTable::Owned {
  std::shared_ptr<RRefState> state;
  /// False: the call that creates it has not arrived yet, though somebody has mentioned the reference already.
  bool exists = false;
  Clock::time_point since = {};
  std::unordered_set<ForkId> forks;                   // its users
  std::vector<std::pair<ForkId, WorkerId>> requests;  // fork requests that wait for it to exist
  std::vector<std::shared_ptr<Arrival>> waiting;      // received messages that do
};

/// A reference of this worker to another's object.
struct RRefTable::User {
  RRefId rref;
  WorkerId owner = -1;
  uint64_t owner_incarnation = 0;
  std::weak_ptr<RRefState> state;
  Clock::time_point since = {};
  bool created_here = false;  // by a call of this worker, which also confirms the state
  bool sent = false;          // created_here: the call has left
  bool known = false;         // the owner knows this fork
  bool asked = false;         // the owner was asked and has not answered
  bool dropped = false;       // no handle any more; waits for `known`, to be deleted
  bool unreleased = false;    // no handle any more; memory ran out before the owner could be told
  std::exception_ptr error;   // lost: nothing is left to tell the owner
  std::vector<std::shared_ptr<Arrival>> waiting;
};

/// The references of a message on its way, until its receiver has said what became of them.
struct RRefTable::Transfer {
  std::vector<std::shared_ptr<RRefState>> parents;  // kept alive meanwhile: G2
  std::vector<ForkId> registered;                   // forks of this worker's own objects: users already
  std::optional<ForkDescriptor> creation;
  std::size_t forks = 0;
};

/// What there is between this worker and one incarnation of a peer.
struct RRefTable::Session {
  WorkerInfo peer;
  uint64_t incarnation = 0;
  uint64_t serial = 0;  // no other session of this table has it, not even a later one with the same incarnation
  ControlChannel channel;
  std::vector<ControlRecord> outbox;
  bool urgent = false;                                   // the outbox must leave now
  Clock::time_point lazy_at = Clock::time_point::max();  // when it leaves at the latest
  std::unordered_set<ForkId> held;                       // the peer's forks of this worker's objects
  std::size_t asked = 0;                                 // users here whose forks the peer has not decided
  uint64_t first_creation = 1;  // the peer's creations before this one belonged to earlier sessions
  CallFilter creations;         // which of the peer's creations have come
  bool follows = false;  // an earlier session had the same incarnation, and the peer has not sent creations_from yet
  bool asked_creations = false;  // the peer has been asked for creations_from
  std::optional<uint64_t>
      own_creations;  // still to be sent, before any other record: the first creation of this session
  std::map<TransferKey, Transfer> transfers;  // messages to the peer
  std::unordered_set<uint64_t> cancelled;     // the peer's calls, still served here
  std::deque<uint64_t> recent_replies;        // calls whose replies with references have been taken
};

/// What an event leads to once the lock has been released.
struct RRefTable::Effects {
  std::vector<std::pair<WorkerId, Bytes>> batches;
  std::vector<std::shared_ptr<RRefState>> confirmed;
  std::vector<std::pair<std::shared_ptr<RRefState>, std::exception_ptr>> failed;
  std::vector<std::shared_ptr<Arrival>> arrivals;
  std::vector<std::shared_ptr<Arrival>> expired;
  std::vector<std::shared_ptr<RRefState>> released;  // only to be destroyed
  std::vector<std::unique_ptr<ParkedMessage>> ignored;
};

/// The number of an RRefId: the owner's rank in the upper 16 bits, a counter that its creator keeps for each owner
/// below. So an owner can tell from the number alone which creations of a peer it has not seen yet.
inline uint64_t rref_number(WorkerId owner, uint64_t counter) noexcept {
  return static_cast<uint64_t>(owner) << 48 | counter;
}
inline WorkerId rref_owner(const RRefId& id) noexcept { return static_cast<WorkerId>(id.number >> 48); }
inline uint64_t rref_counter(const RRefId& id) noexcept { return id.number & kCounterMask; }

inline std::exception_ptr rref_error(const std::string& text) { return std::make_exception_ptr(RRefError(text)); }
std::string rref_text(const RRefId& id);  ///< "RRef 3.17"

/// One event: what it changes happens under the lock, what it leads to when the event is over.
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
