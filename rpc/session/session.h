#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tendril/rpc/agent.h"
#include "tendril/rpc/call/counters.h"
#include "tendril/rpc/call/pending_call.h"
#include "tendril/rpc/session/agent_listener.h"
#include "tendril/rpc/session/device_routes.h"
#include "tendril/rpc/session/transfer.h"
#include "tendril/rpc/transport/link.h"

namespace tendril::rpc::detail {

struct InboundState;

/// How to reach a peer whose connection was lost.
struct Reach {
  Agent::Endpoint endpoint = {};  ///< empty: not at all
  bool dialled = false;           ///< this side has made the connection, and makes the next one
};

/// Everything between this agent and one incarnation of a peer, from joining to loss: the calls in both directions. It
/// outlives its connection where its link does. The session of an agent with itself has no link. Thread-safe.
class Session final : public LinkEvents, public std::enable_shared_from_this<Session> {
 public:
  Session(std::shared_ptr<Agent::Impl> agent, WorkerInfo peer, uint64_t incarnation, std::shared_ptr<Link> link,
          DeviceRoutes routes, Reach reach = {});

  const WorkerInfo& peer() const noexcept { return peer_; }
  uint64_t incarnation() const noexcept { return incarnation_; }  ///< the peer's
  const Reach& reach() const noexcept { return reach_; }
  const std::shared_ptr<Link>& link() const noexcept { return link_; }
  bool is_self() const noexcept { return link_ == nullptr; }
  bool ended() const;

  // ---- calls made
  void call(Message&& request, PendingCallRef call, const CallOptions& options);
  /// The caller gives it up; the callee is told. Nothing happens if the call has ended.
  void give_up(uint64_t call_id, const std::exception_ptr& error);
  /// Fails what is overdue and pings a silent peer. When to come again; max: not needed.
  Clock::time_point sweep(Clock::time_point now);
  void list_calls(Clock::time_point now, std::vector<CallInFlight>& out) const;
  std::size_t pending() const;

  // ---- calls served
  void dispatch(Message&& request, Clock::time_point now);
  void refuse(uint64_t call_id, const std::exception_ptr& error) noexcept;
  /// A request that was received is started or dropped: the peer may send as much again.
  void started(uint64_t cost) noexcept {
    if (link_ && cost > 0) link_->request_started(cost);
  }
  /// Keeps a request from starting while too many replies to its peer are queued. True: it was taken, and is posted
  /// again later.
  bool hold_back(std::unique_ptr<Job>& request) noexcept;
  /// Sends a reply or error; the call is then answered. Throws MessageError if the reply cannot be sent as it is; the
  /// call is then still to be answered.
  void answer(Message&& reply);
  /// Says where the tensors of a reply go. Throws UsageError for one that has no place at the caller.
  void place(Message& reply) const { routes_.place(reply); }
  void drop(uint64_t call_id);  ///< the call will not be answered: its caller has given it up
  RequestStatus withdraw(uint64_t call_id);
  std::size_t unanswered() const;
  void list_received(Clock::time_point now, std::vector<CallReceived>& out) const;  ///< queued and running: suspended

  /// Requests that this session has carried. Its end takes them out of the sums that shutdown waits for (drain.h): what
  /// was on the way then never arrives.
  uint64_t requests_sent() const noexcept { return requests_sent_.load(std::memory_order_relaxed); }
  uint64_t requests_received() const noexcept { return requests_received_.load(std::memory_order_relaxed); }

  bool send_control(Bytes payload);
  /// Sends a message of no consequence for any one call. False: the connection is closed, by this if it must be.
  bool say(Message&& message) noexcept;
  /// Ends the session from this side: pending calls fail with `error`, handlers' stop tokens are set off.
  void end(const std::exception_ptr& error);

  // LinkEvents
  void received(Link& link, Message&& message) override;
  void closed(Link& link, std::exception_ptr reason) override;
  void uncongested(Link& link) override;
  void disconnected(Link& link) override;
  void not_sent_again(Link& link, uint64_t call_id, std::exception_ptr why) override;

 private:
  struct GiveUp {
    std::weak_ptr<Session> session;
    uint64_t call_id;
    void operator()() const noexcept;
  };
  using StopCallback = std::stop_callback<GiveUp>;
  struct Pending {
    OpenCall open;  // first: it goes last
    PendingCallRef call = {};
    uint64_t function = 0;
    Clock::time_point started = {}, deadline = {};
    bool leaving = false;  // its references are being registered: who ends it leaves it to the sender to say so
    std::unique_ptr<StopCallback> stop = {};
    uint64_t span = 0;  // 0: not traced
  };

  struct Serving {
    std::stop_source stop = {};
    uint64_t function = 0;
    Clock::time_point received = {};
    bool dispatched = false;  // its references are confirmed
  };

  void send_request(uint64_t call_id, Message&& request, Staging* staging, Clock::time_point deadline);
  bool begin_leaving(uint64_t call_id);
  bool end_leaving(uint64_t call_id);
  void say_cancelled(uint64_t call_id, bool leaving) noexcept;
  bool is_pending(uint64_t call_id) const;
  std::optional<Pending> take(uint64_t call_id, bool cancelled = false);
  void fail(Pending pending, const std::exception_ptr& error) noexcept;
  void reply_received(Message&& reply);
  void complete(Message&& reply) noexcept;
  void request_received(Message&& request);
  void cancel_received(uint64_t call_id);
  bool ping(Clock::time_point now);
  void trace_end(const Pending& pending, Clock::time_point end, bool failed) const noexcept;
  /// This thread drives I/O: what waits for a device goes on on a thread of the pool.
  static bool must_not_wait() noexcept;

  friend class ParkedRequest;
  friend class ParkedReply;
  friend struct InboundState;

  const std::shared_ptr<Agent::Impl> agent_;
  const WorkerInfo peer_;
  const uint64_t incarnation_;
  const std::shared_ptr<Link> link_;  // null: the agent itself
  const DeviceRoutes routes_;
  const Reach reach_;

  Counters::Count requests_sent_{0}, requests_received_{0};

  mutable std::mutex mutex_;
  bool ended_ = false;
  bool said_goodbye_ = false;
  uint64_t last_call_id_ = 0;
  std::unordered_map<uint64_t, Pending> pending_;
  CallFilter filter_;
  std::unordered_map<uint64_t, Serving> serving_;  // requests received, not yet answered
  std::vector<uint64_t> overtaken_;                // cancelled before they came
  std::vector<uint64_t> ended_leaving_;            // calls that ended while they were leaving
  std::vector<std::unique_ptr<Job>> held_;         // requests that wait until the peer takes its replies
  int unanswered_pings_ = 0;
  Clock::time_point last_ping_{};
};

/// One request on its way through queue, handler and reply. Also the pool's job: one allocation a request.
struct InboundState final : Job {
  InboundState(std::shared_ptr<Session> s, Message&& r, const ServedFunction* f, std::stop_token stop,
               Clock::time_point now);
  ~InboundState() override { begin(); }
  /// It is started, or dropped: gives its credit back, once.
  void begin() noexcept { session->started(std::exchange(cost, 0)); }
  void run(std::unique_ptr<Job> self) noexcept override;
  bool is_short() const noexcept override;
  int level() const noexcept override;
  CallOrigin origin() const noexcept override { return context.origin; }

  std::shared_ptr<Session> session;
  std::shared_ptr<Agent::Impl> agent;
  Message request;
  uint64_t call_id = 0;
  const ServedFunction* function = nullptr;
  CallContext context;
  uint64_t cost = 0;             // of flow control, until it is started
  Clock::time_point begun = {};  // the handler
};

}  // namespace tendril::rpc::detail
