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

/// Joining and leaving a group of workers, and the functions that act on the one that this process has joined.
namespace tendril::rpc {

/// How workers of one host talk to each other.
enum class Transport {
  automatic,    ///< Unix-domain sockets between workers of one host, TCP where they cannot reach each other so
  tcp,          ///< TCP, between workers of one host, too
  unix_socket,  ///< Unix-domain sockets; other hosts cannot be reached
};

/// What is not given here is what rpc::spawn or rpc::launch say, or else read from the environment: MASTER_ADDR,
/// MASTER_PORT (or TENDRIL_PORT), RANK, WORLD_SIZE, or what torchrun, Open MPI, MPICH, Slurm (srun) and Kubernetes set
/// there instead (docs/deploy.md).
struct InitOptions {
  WorkerId rank = -1;   ///< 0 to world_size - 1
  int world_size = -1;  ///< how many workers the group has
  std::string master_addr =
      {};                ///< where rank 0 listens. Default: 127.0.0.1; routable addresses need a key or certificates
  int master_port = -1;  ///< and its port. Default: what the launcher says, or else 29500; any for a group of one
  int num_worker_threads = 16;                                       ///< how many handlers run at once
  std::chrono::microseconds rpc_timeout = std::chrono::seconds(60);  ///< of calls; 0 = none
  /// For all workers to join and to connect. If some have not, rank 0 throws up to 2 s later: until then it tells those
  /// who come late why there is no group.
  std::chrono::milliseconds init_timeout = std::chrono::seconds(60);
  Transport transport = Transport::automatic;  ///< or, where this is automatic, what TENDRIL_TRANSPORT says
  /// What all workers of the group prove to each other over TCP, or the file that holds it. Default: what rpc::spawn
  /// made, else the file that TENDRIL_KEY_FILE names, else this user's key, which is good for one host
  /// (shared_key.h).
  SharedKey key = {};
  std::string key_file = {};  ///< where the shared key is; empty: as shared_key.h says
  /// Certificates for TLS over TCP, in place of a key. Default: the files that TENDRIL_TLS_CERTIFICATE_FILE,
  /// TENDRIL_TLS_PRIVATE_KEY_FILE and TENDRIL_TLS_AUTHORITY_FILE name, which take precedence over the key that
  /// rpc::spawn makes.
  TlsFiles tls = {};
  /// The network interface whose address this worker's agent listens on; rank 0's listens at master_addr. Default: what
  /// TENDRIL_SOCKET_IFNAME says, else the one from which it reached rank 0.
  std::string interface = {};
  /// By the peer's name: where tensors on this worker's GPUs go there. Default: the same device.
  std::map<std::string, DeviceMap> device_maps = {};
  /// SIGUSR1 has the status of all workers of this process (status.h) written to the error output, unless the program
  /// has set what SIGUSR1 does, or ignores it. It stays so for as long as the process lives.
  bool status_signal = true;
  /// Serves this worker's counters as Prometheus text (status.h) at http://127.0.0.1:PORT/metrics: to this host only.
  /// 0: a free port (Group::metrics_port). -1: TENDRIL_METRICS_PORT plus the rank, or not at all where that is not set.
  int metrics_port = -1;
  /// A file for a trace of all calls and handlers, which Perfetto (ui.perfetto.dev) and Chrome read: each worker adds
  /// itself when it leaves. Empty: TENDRIL_TRACE, or none where that is not set (docs/observability.md).
  std::string trace = {};
  /// Called with the new agent before any other worker can call it: the place to add message hooks.
  std::function<void(const std::shared_ptr<Agent>&)> prepare = {};
  /// The rest of the agent's options; name, rank, world_size, group and what is named above are filled in.
  AgentOptions agent = {};
};

/// Of the end of a group.
struct ShutdownOptions {
  /// Wait for all workers, let nested and follow-up calls finish, release references, leave together. If false: leave
  /// alone, at once; pending calls fail, here and at others.
  bool graceful = true;
  /// For all of a shutdown; each of its last phases has a second even where the earlier ones took all the time. 0: it
  /// waits for the others as long as they live and have work (a server waits so for its clients, all day; a worker that
  /// dies meanwhile may be started anew), and for its own handlers; where one is gone, it ends when all others are in
  /// it. See Agent::shutdown for handlers that never return.
  std::chrono::milliseconds timeout{0};
  /// A graceful shutdown among the workers that are alive: workers that have died or left, before or meanwhile, are not
  /// waited for; otherwise they would make it fail. If rank 0, which runs the barriers, is lost, each worker leaves at
  /// once. Pass the same value at all workers.
  bool accept_losses = false;
};

/// One worker's membership in a group. A process may hold several (tests do); init_rpc keeps a default one.
///
/// Members come and go (docs/decisions/0015-members-come-and-go.md): a worker other than rank 0 that has died or left
/// may be started anew with the same name and rank, and joins the running group. Calls then reach the new one; calls to
/// the old one that were pending fail with PeerLostError, and references to its objects with owner_lost.
///
/// Rank 0 pings silent members, and every member pings rank 0, every `ping_interval`; a worker that stays silent for
/// `liveness_timeout` is lost. Set both in `InitOptions::agent`.
class Group {
 public:
  /// Joins: returns when every worker can call every other (they are connected when they do), or throws at all of them.
  /// Rank 0 listens at master_addr. Throws UsageError (settings that are missing or wrong, a name or rank that another
  /// worker has, a port in use, that of the metrics too), TimeoutError (naming the workers that are missing, and who
  /// was refused), PeerLostError (a worker died meanwhile). A wait of more than 5 s says on the error output for whom.
  /// A worker that is started anew returns when it can call every other that is alive; until the one before it is known
  /// to be dead it waits, and in the end says who has its rank.
  explicit Group(const std::string& name, const InitOptions& options = {});
  ~Group();  ///< as shutdown({.graceful = false}), but for what that throws
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  /// The agent that it was made with.
  const std::shared_ptr<Agent>& agent() const noexcept;
  const std::vector<WorkerInfo>& workers() const noexcept;  ///< by rank
  /// How many references there are, by kind.
  RRefCounters rref_counters() const;
  std::vector<LiveReference> references() const;  ///< of this worker to others' objects and the reverse, oldest first
  uint16_t metrics_port() const noexcept;         ///< InitOptions::metrics_port; 0: none is served

  GroupView view() const;  ///< who is alive, as far as this worker has heard
  uint64_t epoch() const;  ///< of `view()`
  /// Returns the view once its epoch is higher than this one, or at the timeout (0: none). Throws PeerLostError if
  /// rank 0 is gone, without which there are no more changes, and UsageError once this worker has left.
  GroupView wait_for_change(uint64_t epoch, std::chrono::milliseconds timeout);

  /// Returns when every worker has called it. All workers must call barriers in the same order. If several threads of a
  /// worker call it for the same workers, they take turns; the wait for a turn counts towards the timeout, and a
  /// timeout of 0 means no limit. Barriers need rank 0.
  ///
  /// Throws TimeoutError naming the workers that are missing; PeerLostError naming those that have died, left or been
  /// restarted since the call, or that are not alive at all; UsageError for a negative timeout or after `shutdown`.
  /// Then every worker that waits in the barrier gets an error, and the next barrier of live workers succeeds.
  void barrier(std::chrono::milliseconds timeout = std::chrono::seconds(60));
  /// The same of some workers, this one among them; in the same order at them. Those of different workers do not
  /// disturb each other. Throws UsageError for names that no worker has, and where this worker's is missing.
  void barrier(const std::vector<std::string>& names, std::chrono::milliseconds timeout = std::chrono::seconds(60));
  /// The same of all who are alive in the view, and as long as it holds: any change fails it. So survivors meet:
  /// whoever gets PeerLostError looks at `view()` again.
  void barrier(const GroupView& view, std::chrono::milliseconds timeout = std::chrono::seconds(60));

  /// As barrier, and returns the bytes that each worker gave, by rank: what all_gather (collectives.h) is made of.
  /// Throws UsageError for more than kMaxGathered bytes, before anybody waits for this worker.
  std::vector<std::string> gather(std::string bytes, std::chrono::milliseconds timeout = std::chrono::seconds(60));
  /// Of some workers, as such a barrier.
  std::vector<std::string> gather(std::string bytes, const std::vector<std::string>& names,
                                  std::chrono::milliseconds timeout = std::chrono::seconds(60));
  static constexpr std::size_t kMaxGathered = 32 * 1024;  ///< rank 0 sends all workers' to all workers

  /// Leaves (ShutdownOptions); whatever it throws, the agent is shut down afterwards. Not from a handler. Throws
  /// TimeoutError naming who is missing or busy and which functions go on, PeerLostError naming who died, RRefError if
  /// references are left.
  /// A second call does nothing.
  void shutdown(const ShutdownOptions& options = {});

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// Has `extend` called with every agent that a Group makes from now on, before any other worker can call it, and before
/// `InitOptions::prepare`. For libraries that add message hooks (dist/ does): called before main,
/// it holds for all of the process. Once for each function, however often it is named. Returns true.
bool extend_agents(void (*extend)(Agent&));

// ---- The group of this process

/// Joins as `name` (1 to 127 of A-Z a-z 0-9 - _ :, unique in the group), as Group's constructor does. Throws UsageError
/// if this process is in a group already. After shutdown a process may join again. From here on an exception that
/// nobody catches ends the process with the worker's name and the text on the error output and exit status 70.
void init_rpc(const std::string& name, const InitOptions& options = {});
/// Leaves, as Group::shutdown does. Throws UsageError if this process is in no group.
void shutdown(const ShutdownOptions& options = {});
/// Whether init_rpc has been called, and shutdown not since.
bool is_initialized() noexcept;

// These throw UsageError if this process is in no group.
WorkerInfo get_worker_info();  ///< this worker
WorkerInfo get_worker_info(std::string_view name);
WorkerInfo get_worker_info(WorkerId rank);
std::vector<WorkerInfo> get_worker_infos();  ///< all, by rank
/// Group::barrier, of all workers.
void barrier(std::chrono::milliseconds timeout = std::chrono::seconds(60));
/// Group::barrier, of some workers.
void barrier(const std::vector<std::string>& names, std::chrono::milliseconds timeout = std::chrono::seconds(60));
/// Group::barrier, of those that a view says are there.
void barrier(const GroupView& view, std::chrono::milliseconds timeout = std::chrono::seconds(60));
GroupView group_view();  ///< Group::view
/// Group::wait_for_change.
GroupView wait_for_change(uint64_t epoch, std::chrono::milliseconds timeout);
/// The deadline of calls that are given none.
std::chrono::microseconds get_rpc_timeout();
void set_rpc_timeout(std::chrono::microseconds timeout);  ///< of calls made from now on; 0 = none
/// How many references there are, by kind.
RRefCounters rref_counters();
std::vector<LiveReference> references();  ///< Group::references

}  // namespace tendril::rpc

TENDRIL_API_END
