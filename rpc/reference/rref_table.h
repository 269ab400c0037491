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

#include "tendril/rpc/metrics.h"
#include "tendril/rpc/reference/control.h"
#include "tendril/rpc/reference/rref_counters.h"
#include "tendril/rpc/session/agent_listener.h"
#include "tendril/rpc/threads/mutex.h"
#include "tendril/rpc/wire/ids.h"
#include "tendril/rpc/wire/message.h"
#include "tendril/rpc/worker.h"

namespace tendril::rpc {

/// Who refers to what: the owner's side and the users' side of every reference of one worker, as a state machine that
/// does no I/O (docs/rref.md has the protocol and why it is right). It hears what AgentListener hears and acts through
/// its Host. Thread-safe; no lock is held while the host, a parked message or a user's object is touched.
///
/// Guarantees, as long as the workers concerned are alive: an object lives while anybody refers to it; the owner hears
/// of every user that goes (G1); a reference in a message keeps its parent alive until the owner knows the child (G2);
/// a message's references are decided before it is resumed. What a dead worker held goes with its session.
class RRefTable : public std::enable_shared_from_this<RRefTable> {
 public:
  /// The world around a table. Called without locks, on the thread that brought the event, unless it says otherwise.
  class Host {
   public:
    virtual ~Host() = default;
    virtual void send_control(WorkerId to, Bytes payload) noexcept = 0;
    /// As Agent::withdraw_request.
    virtual RequestStatus withdraw_request(WorkerId from, uint64_t call_id) noexcept = 0;
    /// Make a state and do nothing else: the table's lock is held. When a user's state is destroyed, `released` must be
    /// called with its fork.
    virtual std::shared_ptr<RRefState> new_owner_state(const RRefId& id) = 0;
    virtual std::shared_ptr<RRefState> new_user_state(const RRefId& id, const WorkerInfo& owner,
                                                      const ForkId& fork) = 0;
  };

  struct Options {
    std::function<Clock::time_point()> clock = [] { return Clock::now(); };
    /// `received` records wait this long for company: nobody waits for them.
    std::chrono::milliseconds lazy_delay{20};
  };

  /// `self.id` must be below 65536. `incarnation` tells this worker from earlier ones of its rank.
  RRefTable(WorkerInfo self, uint64_t incarnation, std::shared_ptr<Host> host, Options options);
  RRefTable(WorkerInfo self, uint64_t incarnation, std::shared_ptr<Host> host)
      : RRefTable(std::move(self), incarnation, std::move(host), Options{}) {}
  ~RRefTable();

  // ---- references
  /// A reference to an object of this worker that is still to come. Nobody else knows it until it travels.
  std::shared_ptr<RRefState> make_owner();
  /// A reference to an object that `owner` is to make: it goes into exactly one request, with kCreatesReference, to
  /// that worker. Confirming it is the business of that call. Throws RRefError if there is no session with `owner`.
  std::shared_ptr<RRefState> make_user(WorkerId owner);
  /// The last handle of a user is gone. Any thread, also within destructors.
  void released(const ForkId& fork) noexcept;

  // ---- what the agent tells (agent_listener.h)
  void peer_joined(const WorkerInfo& peer, uint64_t incarnation);  ///< tells the host nothing: locks may be held
  void peer_lost(const WorkerInfo& peer, const std::exception_ptr& reason);
  /// Throws MessageError for bytes that a correct peer does not send: the session should end.
  void control_received(const WorkerInfo& from, const Bytes& payload);
  /// Throws RRefError for a reference that was lost, or whose creation is not for this receiver.
  void on_send(const WorkerInfo& to, Message& message);
  void message_not_sent(const WorkerInfo& to, MessageKind kind, uint64_t call_id) noexcept;
  void message_arrived(const WorkerInfo& from, std::unique_ptr<ParkedMessage> parked) noexcept;
  void call_cancelled(const WorkerInfo& to, uint64_t call_id) noexcept;
  /// Whether `peer` owes something: the decision on a reference, or only the acknowledgement of a record.
  bool awaits(WorkerId peer) const noexcept;
  Clock::time_point on_timer(Clock::time_point now) noexcept;

  // ---- the end
  /// Releases every reference of this worker to others' objects, whoever still holds a handle: part of a graceful
  /// shutdown. They fail with RRefError from now on.
  void release_users() noexcept;
  /// The agent is gone: every reference fails, every object is released, the host is not called again. Idempotent.
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
  bool may_still_come(const RRefId& id);
  Owned& own(const RRefId& id);
  void add_fork(Owned& owned, const RRefId& id, const ForkId& fork, Session& holder);
  void remove_fork(const ForkId& fork, WorkerId holder, Effects& effects);
  std::shared_ptr<RRefState> called(const Session& from, const ForkDescriptor& receiver) const;
  void fork_requested(Session& from, const RRefId& id, const ForkId& fork);
  void deleted(Session& from, const RRefId& id, const ForkId& fork, Effects& effects);
  std::shared_ptr<RRefState> created(Session& from, const RRefId& id, const ForkId& fork, Effects& effects);
  void drop_if_unused(const RRefId& id, Effects& effects);
  void holder_lost(Session& session, Effects& effects);
  void nothing_comes(Session& creator, const std::string& why, Effects& effects);
  void say_own_creations(Session& session);

  // rref_user.cpp
  void release(User& user, const ForkId& fork);
  void release_again();
  std::shared_ptr<RRefState> new_user(const RRefId& id, const Session& owner, const ForkId& fork);
  bool resume_at_once(const WorkerInfo& from, ParkedMessage& parked) noexcept;
  std::shared_ptr<RRefState> arrived_fork(Session& from, const ForkDescriptor& fork,
                                          const std::shared_ptr<Arrival>& arrival, Effects& effects);
  void accepted(Session& from, const ForkId& fork, Effects& effects);
  void lose(User& user, const std::exception_ptr& error, Effects& effects);
  void no_longer_asked(User& user) noexcept;
  void owner_lost(Session& session, const std::exception_ptr& error, Effects& effects);
  void check_descriptor(const Session& from, const Message& message, const ForkDescriptor& fork) const;

  // rref_transfer.cpp: messages on their way
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

  mutable detail::Mutex mutex_;  // everything below
  std::shared_ptr<Host> host_;
  std::size_t host_calls_ = 0;  // threads at the host
  detail::Condition host_left_;
  bool closed_ = false;
  uint64_t last_session_ = 0, last_fork_ = 0;
  std::unordered_map<WorkerId, uint64_t> last_rref_;  // by owner: creations are numbered for each owner apart
  std::unordered_map<WorkerId, uint64_t> lost_;       // by peer: the incarnation with which the last session ended
  std::unordered_map<WorkerId, std::unique_ptr<Session>> sessions_;
  std::vector<WorkerId> dirty_;  // sessions with new records to send
  bool has_unreleased_ = false;  // some users are `unreleased`
  // Sessions whose records may wait, in the order of their times; also former times, of sessions that have sent since.
  std::deque<std::pair<Clock::time_point, WorkerId>> lazy_;
  std::unordered_map<RRefId, std::unique_ptr<Owned>> owned_;
  std::unordered_set<RRefId> awaited_;  // of these: mentioned, but not created yet
  std::unordered_map<ForkId, LiveFork> forks_;
  std::unordered_map<ForkId, std::unique_ptr<User>> users_;
  // Parked requests with a deadline, by it and by their numbers: an order by address would differ from run to run.
  std::map<std::pair<Clock::time_point, uint64_t>, Arrival*> expiring_;
  uint64_t last_arrival_ = 0;
};

}  // namespace tendril::rpc
