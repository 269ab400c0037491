#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <typeindex>
#include <utility>
#include <vector>

#include "tendril/rpc/call/inbound_call.h"
#include "tendril/rpc/call/pending_call.h"
#include "tendril/rpc/call/served_function.h"
#include "tendril/rpc/call_context.h"
#include "tendril/rpc/device_map.h"
#include "tendril/rpc/executor.h"
#include "tendril/rpc/message_hook.h"
#include "tendril/rpc/metrics.h"
#include "tendril/rpc/shared_key.h"
#include "tendril/rpc/tls_credentials.h"
#include "tendril/rpc/wire/limits.h"
#include "tendril/rpc/wire/message.h"
#include "tendril/rpc/worker.h"
#include "tendril/tensor/export.h"

namespace tendril::rpc {  // hidden
class AgentListener;
class Link;
enum class RequestStatus : uint8_t;
}  // namespace tendril::rpc

TENDRIL_API_BEGIN

namespace tendril::rpc {

namespace detail {
class Trace;
}

/// Identity, limits and timeouts of an agent.
struct AgentOptions {
  std::string name = {};        ///< this worker's name, see WorkerInfo::name
  WorkerId rank = 0;            ///< this worker's rank
  int world_size = 1;           ///< number of workers in the group
  int num_worker_threads = 16;  ///< limit on running handlers, not counting those resumed after a wait; 1 is enough
  int max_threads = 256;  ///< limit on pool threads, including waiting ones; near it calls stay queued (docs/rpc.md)
  std::chrono::microseconds rpc_timeout = std::chrono::seconds(60);  ///< default timeout of calls; 0 = none
  /// Upper limit on how long a leader polls before it blocks; 0 = never polls. Within this limit it polls for about as
  /// long as a sleep and a wake-up cost, as measured on this machine.
  std::chrono::microseconds max_spin{500};
  std::string group = {};  ///< the group's id; peers that state a different one are rejected
  Limits limits = {};      ///< limits for received messages; a message that exceeds one closes the connection
  /// Limit on the bytes queued for one peer. Above it, calls to the peer wait (until their deadlines), and no further
  /// request from the peer is started. Requests and replies of more than 256 KiB are counted separately, so that small
  /// ones do not wait for them.
  std::size_t send_limit = std::size_t{64} << 20;
  /// Limit on the bytes of requests that wait here to be started; each request counts 1 KiB more than its size. All
  /// peers share the limit equally, but each gets at least 16 MiB (or the whole limit, if that is less), and each may
  /// exceed its share by one message. A peer's further calls wait on the peer; those made outside handlers wait once
  /// half of its share is in use. At least 64 KiB.
  std::size_t receive_limit = std::size_t{256} << 20;
  /// A peer that owes a reply, or does not read its messages, is pinged after it has been silent this long. In a group,
  /// rank 0 also pings idle workers, and workers ping rank 0. 0 = never. Reduced to a quarter of liveness_timeout if
  /// longer.
  std::chrono::milliseconds ping_interval{5000};
  /// A peer that is silent this long, or stops in the middle of a message, is lost; 0 = never. Once more than half of
  /// this time has passed and two pings have gone unanswered (after 15 s with the defaults), the agent tries to replace
  /// the connection, unless grace_period is 0.
  std::chrono::milliseconds liveness_timeout{20000};
  /// How long a session that has lost its connection waits for a new one. Meanwhile calls stay pending. Messages that
  /// had not arrived are sent again over the new connection, and none is delivered twice. The session ends at once if
  /// the peer's process is gone. It ends with its connection if this is 0 on either side, or if an agent does not
  /// listen.
  std::chrono::milliseconds grace_period{10000};
  /// By peer name (this worker's own name is allowed): the peer's devices that tensors are sent to. Default: the same
  /// devices as here. Checked against this process's devices when the agent starts, and against the peer's when it
  /// connects.
  std::map<std::string, DeviceMap> device_maps = {};
  /// Sends tensors on devices as handles of device memory (CUDA IPC) instead of through host memory, to workers on this
  /// host that have this option set as well. Uses up to 1 GiB of a device for the life of the process (docs/cuda.md).
  /// In a group, TENDRIL_CUDA_IPC=1 has the same effect.
  bool cuda_ipc = false;
  /// The key from which TLS over TCP derives its pre-shared key. If empty, this user's key on this host is used
  /// (SharedKey::of_this_user), and routable addresses are rejected.
  SharedKey key = {};
  /// Certificates to use instead of a key.
  TlsCredentials tls = {};
  /// If false on both sides of a TCP connection, the two workers authenticate each other but then exchange messages
  /// without encryption or integrity protection. Set it to false only on a network where every host is trusted
  /// (docs/THREAT_MODEL.md). In a group, TENDRIL_ENCRYPT=0 has the same effect.
  bool encrypt = true;
};

/// Options of one call.
struct CallOptions {
  /// Default: the deadline of the current context, or rpc_timeout if the context has none. 0: no timeout.
  std::optional<std::chrono::microseconds> timeout = {};
  std::stop_token stop = {};  ///< cancels the call; default: the stop token of the current context
};

/// One worker: its peers, its calls in both directions, and the threads that serve them (docs/rpc.md). Typed calls
/// (call.h), RRefs and groups are built on it. One process may have several agents. Thread-safe.
class Agent {
 public:
  /// `functions` must outlive the agent. Throws UsageError if an option is out of range.
  Agent(AgentOptions options, const FunctionTable& functions);
  ~Agent();  ///< calls shutdown() without a deadline; on a thread of this agent's pool, allowed only after a shutdown
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  /// The options that the agent was constructed with.
  const AgentOptions& options() const noexcept;
  /// This worker's name and rank.
  const WorkerInfo& self() const noexcept;
  uint64_t incarnation() const noexcept;  ///< a random number that differs between successive agents of one rank
  /// The group's epoch (Group::epoch) when this worker joined, so successive agents of one rank have increasing
  /// generations. 0 if the agent belongs to no Group, or the group has not formed yet.
  uint64_t generation() const noexcept;
  /// The latest epoch of the group that this worker knows of; 0 as for `generation`.
  uint64_t epoch() const noexcept;

  // ---- peers
  /// The addresses at which an agent accepts peers: the path of a Unix-domain socket in a directory of mode 0700, and a
  /// TCP port.
  struct Endpoint {
    std::string unix_path = {};                      ///< empty: none
    std::string tcp_host = {};                       ///< an address or a name
    uint16_t tcp_port = 0;                           ///< 0: none
    std::string to_string() const;                   ///< "unix:PATH,tcp:HOST:PORT"
    static Endpoint parse(const std::string& text);  ///< throws UsageError
  };
  /// The sockets to listen on.
  struct ListenOptions {
    bool unix_socket = true, tcp = true;  ///< kinds of socket
    std::string tcp_host =
        "127.0.0.1";        ///< an address or name of this host; routable ones need AgentOptions::key or tls
    uint16_t tcp_port = 0;  ///< 0: any free port
    /// The host in the returned endpoint, which peers dial. Default: the address of tcp_host.
    std::string advertised_host = {};
    /// An inherited TCP socket that is already listening, used instead of host and port; duplicated. -1: none.
    int tcp_socket = -1;
  };
  /// Starts to accept peers. Each connection has 5 s to authenticate (over TCP, by TLS) and to send its hello
  /// (hello.h). A connection that misbehaves is closed without affecting others, and logged at most once a minute. If
  /// no Unix-domain socket can be created (for example, on a full or read-only file system) and TCP is requested too,
  /// only TCP is used. Throws UsageError if the port is in use, or for a routable address without a key or
  /// certificates.
  Endpoint listen(ListenOptions options);
  Endpoint listen() { return listen({}); }
  /// Stops accepting peers, and removes the socket from the file system. Connected peers stay connected. Idempotent.
  void stop_listening();
  /// Connects to a peer, over its Unix-domain socket if that is reachable, otherwise over TCP, and adds it. Blocks
  /// until the peer has answered; if it is too busy to answer, tries again until the deadline. Throws PeerLostError if
  /// nothing answers at the endpoint, TimeoutError, MessageError if it is not a worker, and UsageError if it is not the
  /// expected worker or has a different key.
  void connect(const WorkerInfo& peer, const Endpoint& endpoint, Clock::time_point deadline);
  /// Adds a peer that is reached through a custom link, and starts the link. `incarnation` and `devices` are those that
  /// the peer stated. Throws UsageError if a device map does not fit.
  void add_peer(const WorkerInfo& peer, uint64_t incarnation, std::shared_ptr<Link> link,
                const DeviceReport& devices = {});
  /// The report on its devices that this agent sends to the peer of that name.
  DeviceReport devices_for(const std::string& peer) const;
  std::vector<WorkerInfo> peers() const;  ///< the peers that this agent has a session with, excluding itself
  /// Looks up a worker: this one, or a peer that has been added. Throws UsageError naming the worker if it is unknown.
  WorkerInfo worker(std::string_view name) const;
  WorkerInfo worker(WorkerId rank) const;
  /// Whether there is a session with the peer. The session may be without a connection: because the connection was lost
  /// (AgentOptions::grace_period), or because, within a group, it is made only when something is first sent.
  bool is_connected(WorkerId peer) const noexcept;
  /// Blocks until the peer is connected (by either side). Returns false if the deadline passes first.
  bool wait_connected(WorkerId peer, Clock::time_point deadline);
  /// Sets the listener for control messages and lost peers. Call it once, before the first peer is added.
  void set_listener(std::shared_ptr<AgentListener> listener);
  /// The listener for control messages and lost peers, or null.
  const std::shared_ptr<AgentListener>& listener() const noexcept;
  /// Records every call, every handler and which thread leads, from now on. Call it before the first peer is added.
  /// TENDRIL_TRACE has the same effect (group.h).
  void set_trace(std::shared_ptr<detail::Trace> trace);
  void add_hook(std::shared_ptr<MessageHook> hook);  ///< call it before the first call
  /// Stores an object, one of each type, until the agent is destroyed. Call it before the first call, because `part`
  /// takes no lock. Throws UsageError if the agent already has an object of this type.
  template <class T>
  void attach(std::shared_ptr<T> part) {
    attach_part(typeid(T), std::move(part));
  }
  /// Returns the attached object of this type, or null.
  template <class T>
  std::shared_ptr<T> part() const noexcept {
    return std::static_pointer_cast<T>(find_part(typeid(T)));
  }

  // ---- calls
  /// Sends `request` (function, payload and tensors; the agent fills in the rest) and returns. `call` later completes
  /// with the reply, or fails with TimeoutError, CancelledError, PeerLostError, RemoteError, UnknownFunctionError or
  /// MessageError. Throws UsageError, leaving `call` unchanged, if the peer does not exist or after shutdown.
  void call(WorkerId to, Message&& request, PendingCallRef call, const CallOptions& options = {});
  /// Sends one control message. Those that one thread sends arrive in order; one to this worker itself is handled at
  /// once. Returns false if the peer is not connected or this agent has been shut down.
  bool send_control(WorkerId to, Bytes payload);
  /// Returns the status of a request to this agent that its caller has cancelled. If the request has not arrived, it
  /// will never be served. Returns `answered` if the caller is not connected or this agent has been shut down, since
  /// then nothing is served any more.
  RequestStatus withdraw_request(WorkerId from, uint64_t call_id);

  /// Sets the default timeout of calls made from now on; 0 = none. Throws UsageError if it is negative.
  void set_rpc_timeout(std::chrono::microseconds timeout);
  /// The default timeout of calls.
  std::chrono::microseconds rpc_timeout() const noexcept;

  /// The executor that runs its handlers.
  Executor& executor() const noexcept;
  /// Counters and gauges (metrics.h).
  Metrics metrics() const;
  /// The requests that the open connections have carried so far.
  Traffic traffic() const;
  std::vector<CallInFlight> calls_in_flight() const;  ///< calls made here that have not ended, oldest first
  std::vector<CallReceived> calls_received() const;   ///< requests received and not yet answered, oldest first
  std::vector<Connection> connections() const;        ///< open connections by rank, including the one to itself
  /// Whether at some moment during this call the agent was idle: no calls in either direction, no jobs in the pool, and
  /// no device memory on loan to a peer. (`metrics` cannot show this, because it reads its fields one after the other.)
  bool is_idle() const;
  /// Handlers that have begun and have not ended.
  std::vector<HandlerRunning> handlers_running() const;
  bool has_shut_down() const;  ///< whether shutdown has begun: calls are rejected

  /// Fails all pending calls with CancelledError, closes every connection and ends the threads. Triggers the stop
  /// tokens of running handlers and waits for the handlers. Idempotent; afterwards calls throw UsageError. Throws
  /// UsageError if called on a thread of this agent's pool, unless the agent has already been shut down.
  ///
  /// A thread cannot be ended from outside. If handlers, or destructors of objects that this worker owns, have not
  /// ended by the deadline, throws a TimeoutError that names them; destructors get at least a second. The agent is shut
  /// down nevertheless, and the library's objects live as long as the remaining threads use them. The program must keep
  /// the FunctionTable, and all objects that a handler refers to, alive for as long. Without a deadline, waits for all
  /// of them, because they may use objects that the caller is about to destroy, and after 5 s names them on stderr.
  void shutdown(Clock::time_point deadline = Clock::time_point::max());

  /// Returns a handle to this agent for threads that may use it while it is being destroyed. It may be used even after
  /// the agent's shutdown and destruction; calls then throw UsageError.
  std::shared_ptr<Agent> share() const;

  class Impl;
  Impl& impl() const noexcept { return *impl_; }  ///< for internal use

 private:
  void attach_part(std::type_index type, std::shared_ptr<void> part);
  std::shared_ptr<void> find_part(std::type_index type) const noexcept;
  explicit Agent(Impl& impl) noexcept;  // the handle inside `impl`, which neither owns it nor shuts it down

  std::shared_ptr<Impl> impl_;
  bool owner_ = true;
};

}  // namespace tendril::rpc

TENDRIL_API_END
