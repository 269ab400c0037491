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

/// Who an agent is, what it keeps and how long it waits.
struct AgentOptions {
  std::string name = {};        ///< as WorkerInfo::name
  WorkerId rank = 0;            ///< of this worker
  int world_size = 1;           ///< how many workers there are
  int num_worker_threads = 16;  ///< handlers that run at once, those that go on after a wait aside; one is enough
  int max_threads = 256;        ///< of the pool, those that wait included; near it calls stay queued (docs/rpc.md)
  std::chrono::microseconds rpc_timeout = std::chrono::seconds(60);  ///< of calls that say nothing else; 0 = none
  /// A leader polls, before it blocks, for about as long as a sleep and a wake-up measured on this machine cost, at
  /// most so long; 0 = never.
  std::chrono::microseconds max_spin{500};
  std::string group = {};  ///< the group's id: who states another one is refused
  Limits limits = {};      ///< of what is received; a message over them closes the connection
  /// Bytes queued to be written to one peer above which calls wait (until their deadlines) and no further request of
  /// that peer is started. Requests and replies of more than 256 KiB count by themselves: small ones do not wait for
  /// their room.
  std::size_t send_limit = std::size_t{64} << 20;
  /// Bytes of requests, 1 KiB added for each, that wait here to be started. All peers share them equally, each with at
  /// least 16 MiB (or the whole limit, if that is less); each may exceed its share by one message. A peer's further
  /// calls wait on its side; those made outside handlers wait beyond half of its share. At least 64 KiB.
  std::size_t receive_limit = std::size_t{256} << 20;
  /// A peer is pinged if it owes a reply, or does not take its messages, and is silent this long. In a group rank 0
  /// also pings idle workers, and workers ping rank 0. 0 = never. At most a quarter of liveness_timeout.
  std::chrono::milliseconds ping_interval{5000};
  /// A peer that is silent this long, or stops in the middle of a message, is lost; 0 = never. Once more than half of
  /// this time is over and two pings have gone unanswered, the agent tries to replace the connection, unless
  /// grace_period is 0. (With the defaults that is after 15 s.)
  std::chrono::milliseconds liveness_timeout{20000};
  /// A session whose connection is lost waits so long for another: calls stay pending, and what had not arrived is sent
  /// again, nothing twice. It ends at once where the peer's process is gone. 0, at either side, or an agent that does
  /// not listen: it ends with its connection.
  std::chrono::milliseconds grace_period{10000};
  /// By the peer's name, this worker's own included: which of its devices tensors go to. Default: the same ones.
  /// Checked against this process's devices when the agent starts, and against the peer's when it connects.
  std::map<std::string, DeviceMap> device_maps = {};
  /// Tensors on devices go to workers of this host that say so too as handles of device memory (CUDA IPC), not through
  /// host memory. Takes up to 1 GiB of a device for the life of the process. See "What has run" in docs/cuda.md. A
  /// group's workers are also told by TENDRIL_CUDA_IPC=1.
  bool cuda_ipc = false;
  /// The key from which TLS over TCP derives its pre-shared key. If there is none, this user's key on this host is
  /// used (SharedKey::of_this_user), and routable addresses are refused.
  SharedKey key = {};
  /// Certificates in place of a key.
  TlsCredentials tls = {};
  /// If false at both sides of a TCP connection, they authenticate each other, but then exchange messages without
  /// encryption and without protection against changes. Use this only where every host of the network is trusted
  /// (docs/THREAT_MODEL.md). In a group, TENDRIL_ENCRYPT=0 has the same effect.
  bool encrypt = true;
};

/// Of one call.
struct CallOptions {
  /// Unset: the current context's deadline, else rpc_timeout. 0: none.
  std::optional<std::chrono::microseconds> timeout = {};
  std::stop_token stop = {};  ///< cancels the call; default: the current context's
};

/// One worker: peers, calls in both directions, and the threads that serve them (docs/rpc.md). The typed calls
/// (call.h), RRefs and groups are built on it. One process may hold many agents. Thread-safe.
class Agent {
 public:
  /// `functions` must outlive the agent. Throws UsageError for an option out of range.
  Agent(AgentOptions options, const FunctionTable& functions);
  ~Agent();  ///< as shutdown(), without a deadline; on a thread of its pool only after a shutdown
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  /// What it was made with.
  const AgentOptions& options() const noexcept;
  /// This worker's name and rank.
  const WorkerInfo& self() const noexcept;
  uint64_t incarnation() const noexcept;  ///< a random number that tells this agent from earlier ones of its rank
  /// The group's epoch when this worker joined it (Group::epoch), so that agents of one rank that follow each other
  /// have higher and higher ones. 0: it belongs to no Group, or has not met the others yet.
  uint64_t generation() const noexcept;
  /// The group's latest epoch that this worker has heard of, or 0 likewise.
  uint64_t epoch() const noexcept;

  // ---- peers
  /// Where this agent accepts peers: the path of a Unix-domain socket in a folder of mode 0700, and a TCP port.
  struct Endpoint {
    std::string unix_path = {};                      ///< empty: none
    std::string tcp_host = {};                       ///< an address or a name
    uint16_t tcp_port = 0;                           ///< 0: none
    std::string to_string() const;                   ///< "unix:PATH,tcp:HOST:PORT"
    static Endpoint parse(const std::string& text);  ///< throws UsageError
  };
  /// Where an agent can be reached.
  struct ListenOptions {
    bool unix_socket = true, tcp = true;  ///< which kinds of socket
    std::string tcp_host =
        "127.0.0.1";        ///< an address or name of this host; routable ones need AgentOptions::key or tls
    uint16_t tcp_port = 0;  ///< 0: a free one
    /// What the endpoint says that peers dial. Default: tcp_host's address.
    std::string advertised_host = {};
    /// An inherited TCP socket that listens already, in place of host and port; duplicated. -1: none.
    int tcp_socket = -1;
  };
  /// Starts to accept peers. Each connection has 5 s to authenticate (over TCP, by TLS) and to send its hello
  /// (hello.h). A connection that misbehaves is closed without disturbing others, and logged at most once a minute. If
  /// no Unix-domain socket can be made (a full or read-only file system) and TCP is requested too, TCP alone is used.
  /// Throws UsageError (a port in use, a routable address without a key or certificates).
  Endpoint listen(ListenOptions options);
  Endpoint listen() { return listen({}); }
  /// Accepts no more peers; those that are connected stay. Leaves nothing in the file system. Idempotent.
  void stop_listening();
  /// Connects to a peer, over its Unix-domain socket if it is reachable, else TCP, and adds it. Blocks until the peer
  /// has answered; a peer that is too busy to answer is asked again until the deadline. Throws PeerLostError (nobody
  /// there), TimeoutError, MessageError (not a worker), UsageError (not the worker it should be, or of another key).
  void connect(const WorkerInfo& peer, const Endpoint& endpoint, Clock::time_point deadline);
  /// Adds a peer behind a link that is not a socket's, and starts the link.
  /// `incarnation` and `devices` are what the peer stated. Throws UsageError where a device map does not fit.
  void add_peer(const WorkerInfo& peer, uint64_t incarnation, std::shared_ptr<Link> link,
                const DeviceReport& devices = {});
  /// What this agent states to a peer of that name.
  DeviceReport devices_for(const std::string& peer) const;
  std::vector<WorkerInfo> peers() const;  ///< with whom there is a session, self excluded
  /// A worker of the group (this one, or a peer that has been added): throws UsageError, naming it, if there is none.
  WorkerInfo worker(std::string_view name) const;
  WorkerInfo worker(WorkerId rank) const;
  /// Whether there is a session with the peer. Its connection may be lost at present (AgentOptions::grace_period), or
  /// still to be made: within a group that is when something is first sent.
  bool is_connected(WorkerId peer) const noexcept;
  /// Blocks until the peer is connected (by whichever side). False: the deadline passed first.
  bool wait_connected(WorkerId peer, Clock::time_point deadline);
  /// Sets who hears of control messages and lost peers; once, before the first peer.
  void set_listener(std::shared_ptr<AgentListener> listener);
  /// Who hears of control messages and lost peers; null: nobody.
  const std::shared_ptr<AgentListener>& listener() const noexcept;
  /// Has every call, every handler and who leads from now on recorded; before the first peer. TENDRIL_TRACE does it
  /// (group.h).
  void set_trace(std::shared_ptr<detail::Trace> trace);
  void add_hook(std::shared_ptr<MessageHook> hook);  ///< before the first call
  /// Stores an object that belongs to this agent, one of each type, until the agent is destroyed. To be called before
  /// the first call, because `part` takes no lock.
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
  /// Sends `request` (function, payload and tensors; the rest is filled in here) and returns. `call` is completed with
  /// the reply or failed: TimeoutError, CancelledError, PeerLostError, RemoteError, UnknownFunctionError, MessageError.
  /// Throws UsageError, and then `call` stays untouched, for a peer that does not exist and after shutdown.
  void call(WorkerId to, Message&& request, PendingCallRef call, const CallOptions& options = {});
  /// One control message; per sending thread they arrive in order. False: the peer is not connected, or this agent has
  /// been shut down. To oneself: heard at once.
  bool send_control(WorkerId to, Bytes payload);
  /// The caller has cancelled a request to this agent: what became of it? If it was never seen, it never will be
  /// served. Where the caller is not connected, or this agent has been shut down, nothing is served any more:
  /// `answered`.
  RequestStatus withdraw_request(WorkerId from, uint64_t call_id);

  /// Of calls made from now on that say nothing else; 0 = none. Throws UsageError if it is negative.
  void set_rpc_timeout(std::chrono::microseconds timeout);
  /// The deadline of calls that are given none.
  std::chrono::microseconds rpc_timeout() const noexcept;

  /// What runs its handlers.
  Executor& executor() const noexcept;
  /// Numbers of this moment: metrics.h.
  Metrics metrics() const;
  /// Bytes and messages so far.
  Traffic traffic() const;
  std::vector<CallInFlight> calls_in_flight() const;  ///< made, oldest first
  std::vector<CallReceived> calls_received() const;   ///< and not answered, oldest first
  std::vector<Connection> connections() const;        ///< open ones by rank, this worker's own included
  /// True: at some moment during this call nothing was going on, neither calls in either direction nor jobs of the
  /// pool, and no peer had memory to give back (that cannot be read off `metrics`, whose fields are read one after the
  /// other).
  bool is_idle() const;
  /// Handlers that have begun and not ended.
  std::vector<HandlerRunning> handlers_running() const;
  bool has_shut_down() const;  ///< or is about to: calls are refused

  /// Fails all pending calls with CancelledError, closes every connection and ends the threads; running handlers are
  /// waited for, their stop tokens set off. Idempotent; afterwards calls throw UsageError. Not from a pool thread of
  /// this agent: UsageError, unless it has been shut down already.
  ///
  /// A thread cannot be ended from outside. Throws TimeoutError if handlers, or destructors of objects that this worker
  /// owns, have not ended by the deadline (the destructors: nor within a second), naming them: the agent is shut down
  /// all the same, for all others, and what the library owns and those threads use lives as long as they do. What is
  /// the program's (the FunctionTable, objects that a handler refers to) has to do so too. Without a deadline it waits
  /// for them, since they may use what the caller is about to destroy, and after 5 s says on the error output for whom.
  void shutdown(Clock::time_point deadline = Clock::time_point::max());

  /// This agent for those who may be at work in it while it goes away: safe to use as long as it is held, also past
  /// the agent's shutdown and destruction, after which calls throw UsageError.
  std::shared_ptr<Agent> share() const;

  class Impl;
  Impl& impl() const noexcept { return *impl_; }  ///< for the library's own parts

 private:
  void attach_part(std::type_index type, std::shared_ptr<void> part);
  std::shared_ptr<void> find_part(std::type_index type) const noexcept;
  explicit Agent(Impl& impl) noexcept;  // part of `impl`: neither owns it nor shuts it down

  std::shared_ptr<Impl> impl_;
  bool owner_ = true;
};

}  // namespace tendril::rpc

TENDRIL_API_END
