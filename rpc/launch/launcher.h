#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

/// Launchers start one process for each rank and describe it in its environment, each launcher with different
/// variables.
namespace tendril::rpc::detail {

/// Returns a variable's value, or null, as std::getenv does.
using Environment = std::function<const char*(const char*)>;

/// Returns the process that created the socket pair to which this descriptor belongs, or nullopt if the descriptor does
/// not belong to one or this process created it.
std::optional<int> creator_of_socket(int descriptor);

/// Where rank 0 listens by default, as with torchrun.
inline constexpr int kDefaultPort = 29500;
inline constexpr const char* kLoopback = "127.0.0.1";

/// A description of this process, according to its environment. Members that it does not specify are unset.
struct Launched {
  std::string by;  ///< "torchrun", "Open MPI", ...; empty: no launcher's variables are set
  std::optional<int> rank, world_size;
  std::optional<int> local_rank, local_world_size;  ///< among the processes of this host
  std::string master_addr;                          ///< a host's name or address
  std::optional<int> master_port;
  std::string variables;  ///< those that were read: "RANK=1, WORLD_SIZE=2"
  std::string advice;     ///< how to correct a master that is missing or not found, with this launcher
  int slurm_tasks = 0;    ///< tasks of an allocation if srun has not started this process, else 0

  bool all_local() const { return world_size && local_world_size == world_size; }
  /// "started by Open MPI (OMPI_COMM_WORLD_RANK=1, ...)", for errors.
  std::string text() const;
};

/// Checks for launchers in this order: torchrun; RANK with MASTER_ADDR; Open MPI; MPICH and Intel MPI (Hydra), unless
/// Slurm has set their variables; Slurm (srun); Kubernetes (Indexed Job); RANK alone. MASTER_ADDR, and TENDRIL_PORT
/// before MASTER_PORT, take precedence over the launcher's own variables. However, torchrun sets both MASTER variables
/// itself, and its agent listens on MASTER_PORT. If all processes are on one host, rank 0 listens on loopback. Hydra
/// does not number its jobs, so on one host the job is identified by the process that `maker_of` returns for the socket
/// of PMI_FD.
///
/// Throws UsageError, which names the variables, for malformed or contradictory values.
Launched detect_launcher(const Environment& environment,
                         const std::function<std::optional<int>(int)>& maker_of = creator_of_socket);

/// Returns the first host of a list in Slurm's format: n[001-015,020],h2 -> n001. Throws UsageError.
std::string first_host(const std::string& list);

/// Returns the command to type in an allocation in which srun has not been called. `arguments` are the program's.
std::string srun_line(int tasks, const std::vector<std::string>& arguments);

}  // namespace tendril::rpc::detail
