#pragma once

#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "tendril/rpc/agent.h"
#include "tendril/rpc/device/borrower.h"
#include "tendril/rpc/device/device_routes.h"
#include "tendril/rpc/device/lender.h"
#include "tendril/rpc/device/transfer.h"
#include "tendril/rpc/session/agent_listener.h"
#include "tendril/rpc/session/calls_made.h"
#include "tendril/rpc/session/calls_served.h"
#include "tendril/rpc/system/counters.h"
#include "tendril/rpc/threads/job_queue.h"
#include "tendril/rpc/transport/link.h"

namespace tendril::rpc::detail {

struct InboundState;

/// How a session ended, and whether another one follows.
struct Ending {
  /// The peer may still be alive: another session with it follows if it is still a member of the group.
  bool may_return = false;
  uint32_t next = 0;  ///< lower bound for the number of the next session
};

/// How to reach a peer that has no connection.
struct Reach {
  Agent::Endpoint endpoint = {};  ///< empty: the peer cannot be reached
};

/// The relation of this agent to one incarnation of a peer, from joining to loss: the calls in both directions
/// (calls_made.h, calls_served.h) and the link that carries them. It survives the loss of a connection if its link
/// does. The session of an agent with itself has no link. Thread-safe.
class Session final : public LinkEvents, public std::enable_shared_from_this<Session> {
 public:
  Session(std::shared_ptr<Agent::Impl> agent, WorkerInfo peer, uint64_t incarnation, std::shared_ptr<Link> link,
          DeviceRoutes routes, Reach reach = {});

  const WorkerInfo& peer() const noexcept { return peer_; }
  uint64_t incarnation() const noexcept { return incarnation_; }  ///< the peer's
  Reach& reach() noexcept { return reach_; }                      ///< leader thread only
  const std::shared_ptr<Link>& link() const noexcept { return link_; }
  /// Number among the sessions between these two incarnations, from 1. It may rise until the first connection is made.
  uint32_t number() const noexcept { return link_ ? link_->session() : 1; }
  bool is_self() const noexcept { return link_ == nullptr; }
  bool ended() const { return made_.ended(); }

  // ---- calls made
  void call(Message&& request, PendingCallRef call, const CallOptions& options);
  /// Cancels a call at its caller's request, and notifies the callee. Does nothing if the call has ended.
  void cancel(uint64_t call_id);
  /// Fails overdue calls and pings a silent peer. Returns when to call this again, or max() if that is not needed.
  Clock::time_point sweep(Clock::time_point now);
  void list_calls(Clock::time_point now, std::vector<CallInFlight>& out) const;
  std::size_t pending() const { return made_.size(); }

  // ---- calls served
  void dispatch(Message&& request, Clock::time_point now);
  void refuse(uint64_t call_id, const std::exception_ptr& error) noexcept;
  /// Called when a received request is started or dropped. Returns its credit to the peer.
  void started(uint64_t cost) noexcept {
    if (link_ && cost > 0) link_->request_started(cost);
  }
  /// Holds a request back while too many replies to its peer are queued. Returns true if the request was taken; it will
  /// be posted again later.
  bool hold_back(std::unique_ptr<Job>& request) noexcept;
  /// Sends a reply or an error, which answers the call. Throws MessageError if the message cannot be sent; the call is
  /// then still unanswered.
  void answer(Message&& reply);
  /// Sets the target devices of a reply's tensors. Throws UsageError if a tensor has none at the caller.
  void place(Message& reply) const { routes_.place(reply); }
  void drop(uint64_t call_id);  ///< leaves the call unanswered: it was cancelled, or its deadline has passed
  RequestStatus withdraw(uint64_t call_id) { return served_.withdraw(call_id); }
  JobSource& requests() noexcept { return requests_; }  ///< takes turns with the sources of other peers
  std::size_t unanswered() const { return served_.size(); }
  /// Appends the unanswered calls. Queued and running calls are reported as suspended.
  void list_received(Clock::time_point now, std::vector<CallReceived>& out) const;

  /// Lends device memory to the peer. Null if lending is not enabled on both sides.
  Lender* lender() const noexcept { return lender_.get(); }
  std::size_t lent() const { return lender_ ? lender_->lent() : 0; }  ///< tensors that the peer has not returned

  /// The number of requests that this session has carried. When it ends, they no longer count in the sums that a
  /// shutdown compares (drain.h), because requests that are in flight then never arrive.
  uint64_t requests_sent() const noexcept { return requests_sent_.load(std::memory_order_relaxed); }
  uint64_t requests_received() const noexcept { return requests_received_.load(std::memory_order_relaxed); }

  bool send_control(Bytes payload);
  /// Like send_control, to the peer's GroupEvents and with up to 256 MiB.
  bool send_group(const Bytes& payload);
  /// Sends a message that is not a request, a reply or an error. Closes the connection if that fails. Returns false if
  /// the connection is closed.
  bool say(Message&& message) noexcept;
  /// Ends the session from this side: pending calls fail with `error`, and stop is requested on the handlers' tokens.
  void end(const std::exception_ptr& error) { end(error, Ending{}); }
  void end(const std::exception_ptr& error, const Ending& how);

  // LinkEvents
  void received(Link& link, Message&& message, Clock::time_point when) override;
  void closed(Link& link, std::exception_ptr reason) override;
  void uncongested(Link& link) override;
  void disconnected(Link& link) override;
  void not_sent_again(Link& link, uint64_t call_id, std::exception_ptr why) override;

 private:
  /// A scope in which this session calls the listener. The next session with the peer does not begin before all such
  /// scopes have ended, so that the listener attributes the calls to this session. If the scope converts to false, the
  /// session is over and must not call the listener.
  class ListenerScope {
   public:
    explicit ListenerScope(Session& session) noexcept;
    ~ListenerScope() { release(); }
    ListenerScope(const ListenerScope&) = delete;
    ListenerScope& operator=(const ListenerScope&) = delete;
    void release() noexcept;
    explicit operator bool() const noexcept { return session_ != nullptr; }

   private:
    Session* session_;
  };

  void leave_listener_scope() noexcept;
  void send_request(uint64_t call_id, Message&& request, Staging* staging, Clock::time_point deadline);
  void send_cancel(uint64_t call_id, bool leaving) noexcept;
  std::string call_of(uint64_t function) const;  ///< for errors
  void fail(CallMade call, const std::exception_ptr& error) noexcept;
  void fail_as_lost(CallMade call, const std::exception_ptr& error) noexcept;  ///< adds the call to a PeerLostError
  void fail_overdue(CallsMade::Overdue&& overdue);
  void group_received(Bytes part);
  void lending_received(const Bytes& payload);
  void reply_received(Message&& reply, Clock::time_point now);
  void complete(Message&& reply, Clock::time_point now) noexcept;
  void request_received(Message&& request, Clock::time_point now);
  void start(Message&& request, LazyStopToken stop, Clock::time_point now);
  bool awaits() const;
  bool ping(Clock::time_point now);
  void trace_end(const CallMade& call, Clock::time_point end, bool failed) const noexcept;
  /// Whether this thread drives I/O. If so, work that waits for a device must continue on a pool thread.
  static bool must_not_wait() noexcept;

  friend class ParkedRequest;
  friend class ParkedReply;
  friend struct InboundState;

  const std::shared_ptr<Agent::Impl> agent_;
  const WorkerInfo peer_;
  const uint64_t incarnation_;
  const std::shared_ptr<Link> link_;  // null: the agent itself
  const DeviceRoutes routes_;
  const std::shared_ptr<Lender> lender_;  // this and `borrower_` are null unless lending is enabled on both sides
  const std::shared_ptr<Borrower> borrower_;
  Reach reach_;
  Bytes group_message_;  // leader thread only: the parts that have arrived

  Counters::Count requests_sent_{0}, requests_received_{0};

  CallsMade made_;
  CallsServed served_;
  JobSource requests_;
  std::atomic<bool> said_goodbye_{false};
  std::atomic<uint32_t> open_scopes_{
      1};                     // scopes of class ListenerScope, plus one until the end of the session has been reported
  int unanswered_pings_ = 0;  // leader thread only, like `last_ping_`
  Clock::time_point last_ping_{};
};

}  // namespace tendril::rpc::detail
