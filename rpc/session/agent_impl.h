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
#include "tendril/rpc/call/counters.h"
#include "tendril/rpc/future.h"
#include "tendril/rpc/session/agent_admission.h"
#include "tendril/rpc/session/session.h"
#include "tendril/rpc/threads/loop.h"
#include "tendril/rpc/threads/mutex.h"
#include "tendril/rpc/threads/short_mutex.h"
#include "tendril/rpc/wire/hello.h"

namespace tendril::rpc {

namespace detail {
class Connector;
class GroupEvents;
class Listener;
struct Ending;
}  // namespace detail

/// What an agent is made of. Sessions and requests being served keep it alive past the Agent.
class Agent::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(AgentOptions options, const FunctionTable& served);
  void start();  ///< once it is owned by a shared_ptr

  /// The peer's session. Throws UsageError for a rank out of range and after shutdown; null if it is not connected.
  std::shared_ptr<detail::Session> session(WorkerId peer) const;
  /// As session, for those who have nothing to say to an agent that has been shut down: null then.
  std::shared_ptr<detail::Session> open_session(WorkerId peer) const;
  std::vector<std::shared_ptr<detail::Session>> sessions() const;
  void add_peer(const WorkerInfo& peer, uint64_t peer_incarnation, std::shared_ptr<Link> link,
                const DeviceReport& devices, detail::Reach reach = {});
  /// Adds a session with a worker that has introduced itself with `theirs`, without a connection; the first side that
  /// has something to send makes one. After earlier sessions with the same incarnation it takes the next number.
  /// `endpoint`: where to dial the worker. Throws UsageError as check_hello and add_peer do.
  void add_unconnected(const Hello& theirs, const Agent::Endpoint& endpoint);
  /// A worker of the group with whom there is no session at present.
  void note_worker(const WorkerInfo& worker);
  /// Record of the ended sessions with one incarnation of a peer.
  struct EndedSessions {
    uint64_t incarnation = 0;     ///< the peer's
    uint32_t next = 1;            ///< lowest number of the next session
    bool for_good = false;        ///< no further session may follow
    int unreached = 0;            ///< how many of the last ones never had a connection
    Clock::time_point from = {};  ///< earliest time at which the next session may begin
  };
  /// All fields except `incarnation` are the defaults if no session with that incarnation has ended.
  EndedSessions ended_sessions(WorkerId peer, uint64_t peer_incarnation) const;
  void end_for_good(WorkerId peer, uint64_t peer_incarnation);  ///< allows no further session with that incarnation
  /// Who is told what belongs to the group; before the agent listens. Until `members_known` is called, peers that dial
  /// too early are told nothing and come again.
  void set_group_events(std::shared_ptr<detail::GroupEvents> events);
  std::shared_ptr<detail::GroupEvents> group_events() const;
  void members_known();
  bool expects_members() const;
  Agent::Endpoint listen(const Agent::ListenOptions& how);
  std::shared_ptr<detail::Listener> listening() const;  ///< null: it does not, or not any more
  std::optional<Agent::Endpoint> endpoint() const;      ///< where it listens
  /// Returns the TLS context for TCP connections, or null in a simulation. Throws UsageError if there is no key.
  std::shared_ptr<const detail::TlsContext> security();
  /// Throws UsageError for a routable address if the agent was given neither a key nor certificates. The error explains
  /// how to make a key.
  void check_reachable(const std::string& what, const std::string& host, bool loopback) const;
  /// Sees to another connection for a session whose own was lost. The leader's.
  void reconnect(std::shared_ptr<detail::Session> session);
  /// For a peer that reports that it has lost this worker, while the session is still open here: replaces the
  /// connection, so that this worker learns whether the session has ended.
  void check_connection(WorkerId peer);
  /// Starts it, and cancels it when this agent shuts down. The leader's.
  void start(const std::shared_ptr<detail::Connector>& connector);
  /// The one that connects for this session, if there is one. The leader's.
  std::shared_ptr<detail::Connector> connector_of(const detail::Session& session) const;
  void cancel_connectors();  ///< The leader's.
  bool is_shut_down() const;
  DeviceReport devices_for(const std::string& peer) const;
  /// Each peer's share of AgentOptions::receive_limit.
  uint64_t receive_window() const noexcept;
  /// Removes the session from the table, so that calls no longer find it.
  void session_ended(const std::shared_ptr<detail::Session>& session, const detail::Ending& how);
  void all_told_of_end(const detail::Session& session);  ///< hooks and the listener have been notified, too
  bool is_ending(WorkerId peer) const;  ///< between these two calls, when the next session must not begin yet
  WorkerInfo worker(WorkerId rank) const;
  WorkerInfo worker(std::string_view name) const;
  std::string name_of(WorkerId rank) const;  ///< for messages: also of one that has not been connected yet
  bool wait_connected(WorkerId peer, Clock::time_point deadline);
  void shutdown(Clock::time_point deadline);
  std::vector<HandlerRunning> name(const std::vector<detail::Loop::Running>& running) const;

  /// Sees to it that `sweep` runs by then.
  void arm(Clock::time_point when);
  /// The listener was told something: it may want its timer.
  void listener_told() {
    if (listener) arm(Clock::now() + kListenerDelay);
  }

  /// Something is expected of a peer that owes no reply to a call: its silence is to be noticed.
  void listen_for_life() {
    if (options.ping_interval.count() > 0) arm(Clock::now() + options.ping_interval);
  }

  /// Messages have taken this much memory. Once it is a lot, and this worker rests, what the allocator keeps of it is
  /// given back to the system: freed by many threads, it would stay in their arenas for good.
  void note_load(std::size_t bytes) {
    const uint64_t before = load_.fetch_add(bytes, std::memory_order_relaxed);
    if (before < kMuchLoad && before + bytes >= kMuchLoad) arm(Clock::now() + kRest);
  }

  static constexpr std::chrono::milliseconds kListenerDelay{20};
  static constexpr uint64_t kMuchLoad = uint64_t{64} << 20;
  static constexpr std::chrono::seconds kRest{1};

  Agent handle{*this};  // for those who share this: the Agent itself may go away first
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
  bool somebody_connects() const;
  void connect_later();
  void note(const std::shared_ptr<detail::Connector>& connector);
  Clock::time_point give_memory_back(Clock::time_point now);
  void end_threads(Clock::time_point deadline);
  bool tell_closing(Clock::time_point deadline);
  void check_rank(WorkerId peer, const char* what) const;
  void note_worker_locked(const WorkerInfo& worker);

  mutable detail::ShortMutex mutex_;
  bool shut_down_ = false;
  bool expects_members_ = false;
  std::shared_ptr<detail::GroupEvents> group_events_;
  std::shared_ptr<detail::Listener> accepting_;
  Agent::Endpoint endpoint_;                               // of accepting_
  std::shared_ptr<const detail::TlsContext> key_context_;  // of context_key_; null: not needed yet
  SharedKey context_key_;
  std::vector<std::shared_ptr<detail::Session>> sessions_;    // by rank; null: not connected
  std::vector<const detail::Session*> ending_;                // by rank: whose end is being told
  std::vector<EndedSessions> ended_;                          // by rank: of the last incarnation
  std::vector<WorkerInfo> workers_;                           // by rank, once seen; id -1: not yet
  std::map<std::string, WorkerId, std::less<>> ranks_;        // of workers_, by name
  std::vector<std::vector<Ref<FutureState<void>>>> awaited_;  // by rank: who waits for it to connect
  detail::Mutex shutdown_mutex_;                              // one shutdown at a time

  std::atomic<uint64_t> load_{0};
  uint64_t load_seen_ = 0;  // the leader's: at the last look
  std::atomic<Clock::rep> armed_{Clock::time_point::max().time_since_epoch().count()};
  detail::Timer timer_;  // the leader's
  detail::AgentAdmission admission_{*this};
  std::vector<std::weak_ptr<detail::Connector>> connectors_;  // the leader's
  // The leader's: for sessions that have had no connection yet, to be started soon; and how often that was put off.
  std::vector<std::shared_ptr<detail::Connector>> first_connectors_;
  int looks_ = 0;
};

}  // namespace tendril::rpc
