#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "tendril/rpc/call/call_filter.h"
#include "tendril/rpc/metrics.h"
#include "tendril/rpc/reference/rref_counters.h"
#include "tendril/rpc/session/agent_listener.h"
#include "tendril/rpc/system/mutex.h"
#include "tendril/rpc/wire/control.h"
#include "tendril/rpc/wire/ids.h"
#include "tendril/rpc/wire/message.h"
#include "tendril/rpc/worker.h"

namespace tendril::rpc {

/// The reference-counting protocol of one worker: the owner's side and the user's side of all its references, as a
/// state machine that does no I/O (docs/rref.md describes the protocol and why it is correct). It receives the events
/// of AgentListener and acts through its Host. Thread-safe. Holds no lock while it calls the host (except as noted
/// there), a parked message, or a user's object.
///
/// Guarantees, as long as the workers involved are alive: an object lives while any reference to it exists; the owner
/// is notified of every user that is deleted (G1); a reference in a message keeps its parent alive until the owner
/// knows the child (G2); all references of a message are decided before the message is resumed. References of a dead
/// worker are dropped with its session.
class RRefTable : public std::enable_shared_from_this<RRefTable> {
 public:
  /// The interface to a table's environment. Called without locks, on the thread that delivered the event, unless noted
  /// otherwise.
  class Host {
   public:
    virtual ~Host() = default;
    virtual void send_control(WorkerId to, Bytes payload) noexcept = 0;
    /// See Agent::withdraw_request.
    virtual RequestStatus withdraw_request(WorkerId from, uint64_t call_id) noexcept = 0;
    /// Creates a state, and must do nothing else, because the table's lock is held. When a user's state is destroyed,
    /// `released` must be called with its fork.
    virtual std::shared_ptr<RRefState> new_owner_state(const RRefId& id) = 0;
    virtual std::shared_ptr<RRefState> new_user_state(const RRefId& id, const WorkerInfo& owner,
                                                      const ForkId& fork) = 0;
  };

  struct Options {
    std::function<Clock::time_point()> clock = [] { return Clock::now(); };
    /// How long `received` records are held back to be sent together with others; they are not urgent.
    std::chrono::milliseconds lazy_delay{20};
  };

  /// `self.id` must be below 65536. `incarnation` distinguishes this worker from earlier ones of its rank.
  RRefTable(WorkerInfo self, uint64_t incarnation, std::shared_ptr<Host> host, Options options);
  RRefTable(WorkerInfo self, uint64_t incarnation, std::shared_ptr<Host> host)
      : RRefTable(std::move(self), incarnation, std::move(host), Options{}) {}
  ~RRefTable();

  // ---- references
  /// Creates a reference to an object of this worker that is set later. Other workers do not know it until it is sent.
  std::shared_ptr<RRefState> make_owner();
  /// Creates a reference to an object that `owner` will create. It must be sent in exactly one request, with
  /// kCreatesReference, to that worker. The caller of that request confirms it. Throws RRefError if `owner` has no
  /// session with this worker.
  std::shared_ptr<RRefState> make_user(WorkerId owner);
  /// Called when the last handle of a user is destroyed. On any thread, including within destructors.
  void released(const ForkId& fork) noexcept;

  // ---- events from the agent (agent_listener.h)
  void peer_joined(const WorkerInfo& peer, uint64_t incarnation);  ///< does not call the host, as locks may be held
  void peer_lost(const WorkerInfo& peer, const std::exception_ptr& reason);
  /// Throws MessageError for bytes that a correct peer does not send; the session should then end.
  void control_received(const WorkerInfo& from, const Bytes& payload);
  /// Throws RRefError for a reference that was lost, or that another worker is to create.
  void on_send(const WorkerInfo& to, Message& message);
  void message_not_sent(const WorkerInfo& to, MessageKind kind, uint64_t call_id) noexcept;
  void message_arrived(const WorkerInfo& from, std::unique_ptr<ParkedMessage> parked) noexcept;
  void call_cancelled(const WorkerInfo& to, uint64_t call_id) noexcept;
  /// Whether `peer` owes a decision on a reference or an acknowledgement of a record.
  bool awaits(WorkerId peer) const noexcept;
  Clock::time_point on_timer(Clock::time_point now) noexcept;

  // ---- shutdown
  /// Releases every reference of this worker to objects of other workers, even if handles to it are left. Part of a
  /// graceful shutdown. Such handles fail with RRefError from now on.
  void release_users() noexcept;
  /// Called when the agent is gone. Every reference fails, every object is released, and the host is not called again.
  /// Idempotent.
  void close() noexcept;

  RRefCounters counters() const;
  std::vector<LiveReference> list() const;  ///< oldest first

 private:
  struct Arrival;
  struct Owned;
  struct User;
  struct Transfer;
  struct Session;
  struct Effects;
  class Event;
  class HostCall;
  struct LiveFork {
    RRefId rref;
    WorkerId holder = -1;
    Clock::time_point since = {};
  };
  using TransferKey = std::pair<MessageKind, uint64_t>;

  // rref_table.cpp: sessions, records, effects
  Session* session_of(WorkerId worker) noexcept;
  Session* session_of(WorkerId worker, uint64_t incarnation) noexcept;
  void say(Session& session, ControlRecord record, bool urgent = true);
  void make_room(Session& session);
  void collect(Effects& effects);
  void flush(Session& session, Clock::time_point now, Effects& effects);
  void perform(Effects effects) noexcept;
  void apply(Session& from, const ControlRecord& record, std::optional<RequestStatus> status, Effects& effects);
  void decided(std::vector<std::shared_ptr<Arrival>>& waiting, const std::exception_ptr& error, Effects& effects);
  void finish(const std::shared_ptr<Arrival>& arrival, Effects& effects);
  void expire(Clock::time_point now, Effects& effects);

  // rref_owner.cpp
  bool may_still_be_created(const RRefId& id);
  Owned& own(const RRefId& id);
  void add_fork(Owned& owned, const RRefId& id, const ForkId& fork, Session& holder);
  void remove_fork(const ForkId& fork, WorkerId holder, Effects& effects);
  std::shared_ptr<RRefState> called(const Session& from, const ForkDescriptor& receiver) const;
  void fork_requested(Session& from, const RRefId& id, const ForkId& fork);
  void deleted(Session& from, const RRefId& id, const ForkId& fork, Effects& effects);
  std::shared_ptr<RRefState> created(Session& from, const RRefId& id, const ForkId& fork, Effects& effects);
  void drop_if_unused(const RRefId& id, Effects& effects);
  void holder_lost(Session& session, Effects& effects);
  void fail_lost_creations(Session& creator, const std::string& why, Effects& effects);
  void queue_creations_from(Session& session);

  // rref_user.cpp
  void release(User& user, const ForkId& fork);
  void retry_releases();
  std::shared_ptr<RRefState> new_user(const RRefId& id, const Session& owner, const ForkId& fork);
  bool resume_at_once(const WorkerInfo& from, ParkedMessage& parked) noexcept;
  std::shared_ptr<RRefState> arrived_fork(Session& from, const ForkDescriptor& fork,
                                          const std::shared_ptr<Arrival>& arrival, Effects& effects);
  void accepted(Session& from, const ForkId& fork, Effects& effects);
  void lose(User& user, const std::exception_ptr& error, Effects& effects);
  void no_longer_asked(User& user) noexcept;
  void owner_lost(Session& session, const std::exception_ptr& error, Effects& effects);
  void check_descriptor(const Session& from, const Message& message, const ForkDescriptor& fork) const;

  // rref_transfer.cpp: messages in transit
  bool check_leaving(const Session& to, const Message& message, const RRefState& state) const;
  bool leads_to(const Session& to, const RRefState& state) const;
  ForkDescriptor fork(Session& to, const std::shared_ptr<RRefState>& state, Transfer& transfer);
  void undo(Session& to, const Message& message, const Transfer& transfer, Effects& effects) noexcept;
  void end_transfer(Session& session, TransferKey key, bool undo, Effects& effects);
  void cancel_call(Session& session, uint64_t call_id);
  void on_cancelled(Session& session, const ControlRecord& record, RequestStatus status, Effects& effects);

  const WorkerInfo self_;
  const uint64_t incarnation_;
  const Options options_;

  mutable detail::Mutex mutex_;  // guards everything below
  std::shared_ptr<Host> host_;
  std::size_t host_calls_ = 0;  // threads that are calling the host
  detail::Condition host_left_;
  bool closed_ = false;
  uint64_t last_session_ = 0, last_fork_ = 0;
  std::unordered_map<WorkerId, uint64_t> last_rref_;  // by owner: creations are numbered separately for each owner
  std::unordered_map<WorkerId, uint64_t> lost_;       // by peer: its incarnation in the last session that ended
  std::unordered_map<WorkerId, std::unique_ptr<Session>> sessions_;
  std::vector<WorkerId> dirty_;        // sessions with new records to send
  bool has_pending_releases_ = false;  // whether any user is `unreleased`
  // Sessions with records that may wait, ordered by the time at which they must be sent. Entries may be stale: the
  // session has sent its records since.
  std::deque<std::pair<Clock::time_point, WorkerId>> lazy_;
  std::unordered_map<RRefId, std::unique_ptr<Owned>> owned_;
  std::unordered_set<RRefId> awaited_;  // those of owned_ that have been mentioned but not created yet
  std::unordered_map<ForkId, LiveFork> forks_;
  std::unordered_map<ForkId, std::unique_ptr<User>> users_;
  // Parked requests with a deadline, by deadline and number. An order by address would differ between runs.
  std::map<std::pair<Clock::time_point, uint64_t>, Arrival*> expiring_;
  uint64_t last_arrival_ = 0;
};

}  // namespace tendril::rpc
