#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tendril/rpc/agent.h"
#include "tendril/rpc/members.h"
#include "tendril/rpc/reference/rref_counters.h"
#include "tendril/rpc/shared_key.h"
#include "tendril/rpc/tls_credentials.h"
#include "tendril/rpc/worker.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

/// Joining and leaving a group of workers, and functions that use the group that this process has joined.
namespace tendril::rpc {

/// How workers on the same host communicate.
enum class Transport {
  automatic,    ///< Unix-domain sockets between workers on one host, TCP if they cannot reach each other that way
  tcp,          ///< TCP, even between workers on one host
  unix_socket,  ///< Unix-domain sockets only; other hosts cannot be reached
};

/// Options of init_rpc and Group. Defaults for the rank, the world size and the address come from rpc::spawn or
/// rpc::launch, or else from the environment: MASTER_ADDR, MASTER_PORT (or TENDRIL_PORT), RANK and WORLD_SIZE, or the
/// variables that torchrun, Open MPI, MPICH, Slurm (srun) and Kubernetes set instead (docs/deploy.md).
struct InitOptions {
  WorkerId rank = -1;   ///< 0 to world_size - 1
  int world_size = -1;  ///< number of workers in the group
  std::string master_addr =
      {};                ///< where rank 0 listens. Default: 127.0.0.1; routable addresses need a key or certificates
  int master_port = -1;  ///< rank 0's port. Default: that of the launcher, or else 29500; any port in a group of one
  int num_worker_threads = 16;                                       ///< limit on handlers running at once
  std::chrono::microseconds rpc_timeout = std::chrono::seconds(60);  ///< default timeout of calls; 0 = none
  /// Time limit for all workers to connect to rank 0 and join. If some have not joined by then, rank 0 throws up to 2 s
  /// later, because until then it tells late workers why the group failed.
  std::chrono::milliseconds init_timeout = std::chrono::seconds(60);
  Transport transport = Transport::automatic;  ///< if automatic, TENDRIL_TRANSPORT may set another one
  /// The secret with which the workers of the group authenticate each other over TCP. Set this or `key_file`. Default:
  /// the key that rpc::spawn made, else the file that TENDRIL_KEY_FILE names, else this user's key, which is valid for
  /// one host only (shared_key.h).
  SharedKey key = {};
  std::string key_file = {};  ///< the file that contains the shared key; empty: see `key`
  /// Certificates for TLS over TCP, instead of a key. Default: the files that TENDRIL_TLS_CERTIFICATE_FILE,
  /// TENDRIL_TLS_PRIVATE_KEY_FILE and TENDRIL_TLS_AUTHORITY_FILE name, which take precedence over the key that
  /// rpc::spawn makes.
  TlsFiles tls = {};
  /// The network interface on whose address this worker's agent listens; rank 0 listens at master_addr instead.
  /// Default: the one that TENDRIL_SOCKET_IFNAME names, else the one through which the worker reached rank 0.
  std::string interface = {};
  /// By peer name: the peer's devices to which tensors on this worker's GPUs are sent. Default: the same devices.
  std::map<std::string, DeviceMap> device_maps = {};
  /// Makes SIGUSR1 write the status of all workers of this process (status.h) to stderr, unless the program handles or
  /// ignores SIGUSR1. The handler stays installed until the process ends.
  bool status_signal = true;
  /// Serves this worker's counters as Prometheus text (status.h) at http://127.0.0.1:PORT/metrics, to this host only.
  /// 0: any free port (see Group::metrics_port). -1: TENDRIL_METRICS_PORT plus the rank, or not at all if that is not
  /// set.
  int metrics_port = -1;
  /// A file for a trace of all calls and handlers, in the format that Perfetto (ui.perfetto.dev) and Chrome read. Each
  /// worker adds its part when it leaves. Empty: the file that TENDRIL_TRACE names, or none (docs/observability.md).
  std::string trace = {};
  /// Called with the new agent before any other worker can call it. Add message hooks here.
  std::function<void(const std::shared_ptr<Agent>&)> prepare = {};
  /// Further options of the agent. Its name, rank, world_size, group and the options above are filled in.
  AgentOptions agent = {};
};

/// How to leave a group.
struct ShutdownOptions {
  /// If true: wait for all workers, let nested and follow-up calls finish, release references, and leave together. If
  /// false: leave alone and at once; pending calls fail, both here and on other workers.
  bool graceful = true;
  /// Time limit for the whole shutdown, except that each of its last phases gets at least a second. 0: wait for the
  /// other workers as long as they live and have work, and for this worker's handlers. A server can wait for its
  /// clients this way; a worker that dies meanwhile may be restarted. If a worker is gone, the shutdown ends once all
  /// others have called it. See Agent::shutdown for handlers that never return.
  std::chrono::milliseconds timeout{0};
  /// Whether a graceful shutdown ignores workers that have died or left, before or during the shutdown; otherwise they
  /// make it fail. If rank 0, which runs the barriers, is lost, each worker leaves at once. Pass the same value on all
  /// workers.
  bool accept_losses = false;
};

/// One worker's membership in a group. A process may have several (tests do); init_rpc keeps a default one.
///
/// Membership is dynamic (docs/decisions/0015-members-come-and-go.md): a worker other than rank 0 that has died or left
/// may be restarted with the same name and rank, and joins the running group. New calls then reach the new worker.
/// Pending calls to the old one fail with PeerLostError, and references to its objects fail with owner_lost.
///
/// Every `ping_interval`, rank 0 pings silent members, and members ping rank 0. A worker that stays silent for
/// `liveness_timeout` is lost. Set both in `InitOptions::agent`.
class Group {
 public:
  /// Joins the group. Returns when every worker can call every other one (connections are made by the first call), or
  /// throws on all of them. Rank 0 listens at master_addr. Throws UsageError for missing or invalid settings, for a
  /// name or rank that another worker has, and for a port in use, including that of the metrics. Throws TimeoutError
  /// naming the missing and the rejected workers, and PeerLostError if a worker dies meanwhile. After 5 s, prints to
  /// stderr which workers it is waiting for.
  ///
  /// A restarted worker returns when it can call every other live worker. It waits until its predecessor is known to
  /// be dead; if that does not happen in time, the error names the worker that has its rank.
  explicit Group(const std::string& name, const InitOptions& options = {});
  ~Group();  ///< calls shutdown({.graceful = false}) and ignores its errors
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  /// The agent of this membership.
  const std::shared_ptr<Agent>& agent() const noexcept;
  const std::vector<WorkerInfo>& workers() const noexcept;  ///< all workers of the group, by rank
  /// Numbers of references, by kind.
  RRefCounters rref_counters() const;
  std::vector<LiveReference> references() const;  ///< between this worker and others, either way, oldest first
  uint16_t metrics_port() const noexcept;         ///< the port of InitOptions::metrics_port; 0: none is served

  GroupView view() const;  ///< the members and their states, as far as this worker knows
  uint64_t epoch() const;  ///< the epoch of `view()`
  /// Returns the view once its epoch is higher than `epoch`, or at the timeout (0: none). Throws PeerLostError if rank
  /// 0 is gone, since there are no more changes without it, and UsageError once this worker has left.
  GroupView wait_for_change(uint64_t epoch, std::chrono::milliseconds timeout);

  /// Returns when every worker has called it. All workers must call barriers in the same order. If several threads of a
  /// worker call it for the same workers, they take turns; the wait for a turn counts towards the timeout, and a
  /// timeout of 0 means no limit. Barriers need rank 0.
  ///
  /// Throws TimeoutError naming the missing workers; PeerLostError naming workers that have died, left or been
  /// restarted since the call, or that are not alive at all; UsageError for a negative timeout or after `shutdown`. In
  /// each case every worker that waits in the barrier gets an error, and the next barrier of live workers succeeds.
  void barrier(std::chrono::milliseconds timeout = std::chrono::seconds(60));
  /// A barrier of the named workers, which must include this one and must all call it in the same order. Barriers of
  /// different sets of workers are independent. Throws UsageError for an unknown name, and if this worker's is missing.
  void barrier(const std::vector<std::string>& names, std::chrono::milliseconds timeout = std::chrono::seconds(60));
  /// A barrier of all workers that are alive in the view. Any change of the view makes it fail, so survivors can use it
  /// to meet: on PeerLostError, get `view()` and try again.
  void barrier(const GroupView& view, std::chrono::milliseconds timeout = std::chrono::seconds(60));

  /// A barrier that also returns the bytes that each worker passed, by rank; all_gather (collectives.h) uses it. Throws
  /// UsageError for more than kMaxGathered bytes, before any other worker waits for this one.
  std::vector<std::string> gather(std::string bytes, std::chrono::milliseconds timeout = std::chrono::seconds(60));
  /// Does the same among the named workers, with the rules of `barrier(names)`.
  std::vector<std::string> gather(std::string bytes, const std::vector<std::string>& names,
                                  std::chrono::milliseconds timeout = std::chrono::seconds(60));
  static constexpr std::size_t kMaxGathered = 32 * 1024;  ///< limited because rank 0 sends all values to all workers

  /// Leaves the group (see ShutdownOptions). The agent is shut down even if this throws. Must not be called in a
  /// handler. Throws TimeoutError naming the workers that are missing or busy and the functions that still run,
  /// PeerLostError naming the workers that died, and RRefError if references are left. A second call does nothing.
  void shutdown(const ShutdownOptions& options = {});

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// Registers `extend`, which is then called with every agent that a Group makes, before any other worker can call it
/// and before `InitOptions::prepare`. Libraries that add message hooks (dist/ does) call this before main, so that it
/// applies to all groups of the process. Each function is registered only once. Returns true.
bool extend_agents(void (*extend)(Agent&));

// ---- The group of this process

/// Joins a group as Group's constructor does, and makes it the default group of this process. `name` is 1 to 127 of
/// A-Z a-z 0-9 - _ :, and unique in the group. Throws UsageError if this process is already in a group. After shutdown
/// a process may join again. From then on, an uncaught exception prints the worker's name and its text to stderr, and
/// ends the process with exit status 70.
void init_rpc(const std::string& name, const InitOptions& options = {});
/// Leaves the default group, as Group::shutdown does. Throws UsageError if this process is not in a group.
void shutdown(const ShutdownOptions& options = {});
/// Whether this process is in a group: init_rpc has been called, and shutdown has not been called since.
bool is_initialized() noexcept;

// These throw UsageError if this process is not in a group.
WorkerInfo get_worker_info();  ///< this worker
WorkerInfo get_worker_info(std::string_view name);
WorkerInfo get_worker_info(WorkerId rank);
std::vector<WorkerInfo> get_worker_infos();  ///< all workers, by rank
/// See Group::barrier; of all workers.
void barrier(std::chrono::milliseconds timeout = std::chrono::seconds(60));
/// See Group::barrier; of the named workers.
void barrier(const std::vector<std::string>& names, std::chrono::milliseconds timeout = std::chrono::seconds(60));
/// See Group::barrier; of the workers that are alive in the view.
void barrier(const GroupView& view, std::chrono::milliseconds timeout = std::chrono::seconds(60));
GroupView group_view();  ///< see Group::view
/// See Group::wait_for_change.
GroupView wait_for_change(uint64_t epoch, std::chrono::milliseconds timeout);
/// The default timeout of calls.
std::chrono::microseconds get_rpc_timeout();
void set_rpc_timeout(std::chrono::microseconds timeout);  ///< for calls made from now on; 0 = none
/// Numbers of references, by kind.
RRefCounters rref_counters();
std::vector<LiveReference> references();  ///< see Group::references

}  // namespace tendril::rpc

TENDRIL_API_END
