#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <typeindex>
#include <unordered_map>
#include <vector>

#include "tendril/rpc/agent.h"
#include "tendril/rpc/future.h"
#include "tendril/rpc/session/agent_admission.h"
#include "tendril/rpc/session/session.h"
#include "tendril/rpc/system/counters.h"
#include "tendril/rpc/system/mutex.h"
#include "tendril/rpc/threads/loop.h"
#include "tendril/rpc/threads/short_mutex.h"
#include "tendril/rpc/wire/hello.h"

namespace tendril::rpc {

namespace detail {
class Connector;
class GroupEvents;
class Listener;
struct Ending;
}  // namespace detail

/// The implementation of an agent. Sessions and requests that are being served keep it alive when the Agent is
/// destroyed.
class Agent::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(AgentOptions options, const FunctionTable& served);
  void start();  ///< requires that a shared_ptr owns this object

  /// Returns the peer's session, or null without one. Throws UsageError if the rank is out of range or the agent has
  /// been shut down.
  std::shared_ptr<detail::Session> session(WorkerId peer) const;
  /// Like `session`, but returns null if the agent has been shut down.
  std::shared_ptr<detail::Session> open_session(WorkerId peer) const;
  bool has_session(WorkerId peer) const noexcept;
  std::vector<std::shared_ptr<detail::Session>> sessions() const;
  void add_peer(const WorkerInfo& peer, uint64_t peer_incarnation, std::shared_ptr<Link> link,
                const DeviceReport& devices, detail::Reach reach = {});
  /// Adds a session without a connection, with a worker that has introduced itself with `theirs`. The first side that
  /// has something to send connects. After earlier sessions with the same incarnation, the session takes the next
  /// number. `endpoint`: where to dial the worker. Throws UsageError as check_hello and add_peer do.
  void add_unconnected(const Hello& theirs, const Agent::Endpoint& endpoint);
  /// Records the name and rank of a worker of the group. The worker need not have a session.
  void note_worker(const WorkerInfo& worker);
  /// Record of the ended sessions with one incarnation of a peer.
  struct EndedSessions {
    uint64_t incarnation = 0;     ///< the peer's
    uint32_t next = 1;            ///< lowest number of the next session
    bool for_good = false;        ///< no further session may follow
    int unreached = 0;            ///< number of the most recent sessions in a row that never had a connection
    Clock::time_point from = {};  ///< earliest time at which the next session may begin
  };
  /// If no session with that incarnation has ended, all fields except `incarnation` have their defaults.
  EndedSessions ended_sessions(WorkerId peer, uint64_t peer_incarnation) const;
  void end_for_good(WorkerId peer, uint64_t peer_incarnation);  ///< allows no further session with that incarnation
  /// Sets the receiver of the group's events. Call this before the agent listens. Until `members_known` is called,
  /// connections from peers without a session are closed without an answer, and the peers dial again.
  void set_group_events(std::shared_ptr<detail::GroupEvents> events);
  std::shared_ptr<detail::GroupEvents> group_events() const;
  void members_known();
  bool expects_members() const;
  Agent::Endpoint listen(const Agent::ListenOptions& how);
  std::shared_ptr<detail::Listener> listening() const;  ///< null if the agent does not listen
  std::optional<Agent::Endpoint> endpoint() const;      ///< where the agent listens, if it does
  /// Returns the TLS context for TCP connections, or null in a simulation. Throws UsageError without a key.
  std::shared_ptr<const detail::TlsContext> security();
  /// Throws UsageError for a routable address if the agent was given neither a key nor certificates. The error explains
  /// how to make a key.
  void check_reachable(const std::string& what, const std::string& host, bool loopback) const;
  /// Starts to connect for a session that has lost its connection or needs its first one. Leader thread only.
  void reconnect(std::shared_ptr<detail::Session> session);
  /// Called when a peer reports that it has lost this worker, while the session is still open here. Replaces the
  /// connection, so that this worker learns whether the session has ended.
  void check_connection(WorkerId peer);
  /// Starts the connector, and cancels it when this agent shuts down. Leader thread only.
  void start(const std::shared_ptr<detail::Connector>& connector);
  /// Returns the connector of this session, or null if it is not connecting. Leader thread only.
  std::shared_ptr<detail::Connector> connector_of(const detail::Session& session) const;
  void cancel_connectors();  ///< leader thread only
  bool is_shut_down() const;
  DeviceReport devices_for(const std::string& peer) const;
  /// Each peer's share of AgentOptions::receive_limit.
  uint64_t receive_window() const noexcept;
  /// Removes the session from the table, so that calls no longer find it.
  void session_ended(const std::shared_ptr<detail::Session>& session, const detail::Ending& how);
  void end_notified(const detail::Session& session);  ///< hooks and the listener have been notified of the end
  bool is_ending(WorkerId peer) const;  ///< true between these two calls; the next session must not begin yet
  WorkerInfo worker(WorkerId rank) const;
  WorkerInfo worker(std::string_view name) const;
  std::string name_of(WorkerId rank) const;  ///< for messages; works even if the worker has not connected yet
  bool wait_connected(WorkerId peer, Clock::time_point deadline);
  void shutdown(Clock::time_point deadline);
  std::vector<HandlerRunning> name(const std::vector<detail::Loop::Running>& running) const;

  /// Makes `sweep` run by `when` at the latest.
  void arm(Clock::time_point when);
  /// Arms the timer after an event was reported to the listener, which may need it.
  void arm_listener_timer() {
    if (listener) arm(Clock::now() + kListenerDelay);
  }

  /// Arms the timer because a peer is expected to send something other than a reply: its silence must be detected.
  void arm_liveness_timer() {
    if (options.ping_interval.count() > 0) arm(Clock::now() + options.ping_interval);
  }

  /// Counts the memory that messages have used. When it exceeds kMuchLoad and this worker is idle, the allocator's free
  /// memory is returned to the system. Otherwise it would stay in the arenas of the many threads that freed it.
  void note_load(std::size_t bytes) {
    const uint64_t before = load_.fetch_add(bytes, std::memory_order_relaxed);
    if (before < kMuchLoad && before + bytes >= kMuchLoad) arm(Clock::now() + kRest);
  }

  static constexpr std::chrono::milliseconds kListenerDelay{20};
  static constexpr uint64_t kMuchLoad = uint64_t{64} << 20;
  static constexpr std::chrono::seconds kRest{1};

  Agent handle{*this};  // for users that share this object: the original Agent may be destroyed first
  const AgentOptions options;
  const WorkerInfo self;
  const uint64_t incarnation;
  std::atomic<uint64_t> generation{0}, epoch{0};
  const FunctionTable& functions;
  const Ref<detail::Loop> loop;
  std::vector<std::shared_ptr<MessageHook>> hooks;
  std::unordered_map<std::type_index, std::shared_ptr<void>> parts;  // Agent::attach
  std::shared_ptr<AgentListener> listener;
  std::shared_ptr<detail::Trace> trace;  // null: nothing is recorded
  detail::Counters counters;
  std::atomic<int64_t> rpc_timeout_us{options.rpc_timeout.count()};

 private:
  friend class Agent;
  void sweep();
  bool has_connecting_peers() const;
  void connect_later();
  void note(const std::shared_ptr<detail::Connector>& connector);
  Clock::time_point trim_memory(Clock::time_point now);
  void end_threads(Clock::time_point deadline);
  bool notify_closing(Clock::time_point deadline);
  void check_rank(WorkerId peer, const char* what) const;
  void note_worker_locked(const WorkerInfo& worker);

  mutable detail::ShortMutex mutex_;
  bool shut_down_ = false;
  bool expects_members_ = false;
  std::shared_ptr<detail::GroupEvents> group_events_;
  std::shared_ptr<detail::Listener> accepting_;
  Agent::Endpoint endpoint_;                               // of `accepting_`
  std::shared_ptr<const detail::TlsContext> key_context_;  // of `context_key_`; null: not needed yet
  SharedKey context_key_;
  std::vector<std::shared_ptr<detail::Session>> sessions_;    // by rank; null: not connected
  std::vector<const detail::Session*> ending_;                // by rank: the session whose end is being reported
  std::vector<EndedSessions> ended_;                          // by rank: of the last incarnation
  std::vector<WorkerInfo> workers_;                           // by rank; id -1: not known yet
  std::map<std::string, WorkerId, std::less<>> ranks_;        // of `workers_`, by name
  std::vector<std::vector<Ref<FutureState<void>>>> awaited_;  // by rank: completed when the worker connects
  detail::Mutex shutdown_mutex_;                              // one shutdown at a time

  std::atomic<uint64_t> load_{0};
  uint64_t load_seen_ = 0;  // leader thread only: `load_` at the last check
  std::atomic<Clock::rep> armed_{Clock::time_point::max().time_since_epoch().count()};
  detail::Timer timer_;  // leader thread only
  detail::AgentAdmission admission_{*this};
  std::vector<std::weak_ptr<detail::Connector>> connectors_;  // leader thread only
  // Leader thread only: connectors of sessions that have had no connection yet, which are started soon, and how often
  // their start has been postponed.
  std::vector<std::shared_ptr<detail::Connector>> first_connectors_;
  int looks_ = 0;
};

}  // namespace tendril::rpc
