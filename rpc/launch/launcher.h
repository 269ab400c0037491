#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

/// Launchers start one process for each rank and say in its environment who it is, each in words of its own.
namespace tendril::rpc::detail {

/// Returns a variable's value, or null, as std::getenv does.
using Environment = std::function<const char*(const char*)>;

/// The process that made the pair of sockets of which this descriptor is one; nothing where it is none, or this
/// process's own.
std::optional<int> maker_of_socket(int descriptor);

/// Where rank 0 listens if nobody says: torchrun's default too.
inline constexpr int kDefaultPort = 29500;
inline constexpr const char* kLoopback = "127.0.0.1";

/// What the environment says about this process. What it does not say is not set.
struct Launched {
  std::string by;  ///< "torchrun", "Open MPI", ...; empty: no launcher's variables are there
  std::optional<int> rank, world_size;
  std::optional<int> local_rank, local_world_size;  ///< among the processes of this host
  std::string master_addr;                          ///< a host's name or address
  std::optional<int> master_port;
  std::string variables;  ///< what was read: "RANK=1, WORLD_SIZE=2"
  std::string advice;     ///< what this launcher's user can do about a master that is missing or not found
  int slurm_tasks = 0;    ///< of an allocation in which srun has not started this process; 0: there is none

  bool all_local() const { return world_size && local_world_size == world_size; }
  /// "started by Open MPI (OMPI_COMM_WORLD_RANK=1, ...)", for errors.
  std::string text() const;
};

/// Launchers in the order in which they are asked: torchrun; RANK with MASTER_ADDR; Open MPI; MPICH and Intel MPI,
/// where Slurm does not say the same; Slurm (srun); Kubernetes (Indexed Job); RANK alone. Everywhere MASTER_ADDR, and
/// TENDRIL_PORT before MASTER_PORT, win over what a launcher says; but under torchrun MASTER_PORT is its agent's own.
/// Where all processes are on one host, rank 0 listens on loopback. Hydra gives its jobs no number: on one host
/// `maker_of` its socket (PMI_FD) is it. Throws UsageError for what is malformed or contradictory, naming the
/// variables.
Launched detect_launcher(const Environment& environment,
                         const std::function<std::optional<int>(int)>& maker_of = maker_of_socket);

/// The first host of a list as Slurm writes them: n[001-015,020],h2 -> n001. Throws UsageError.
std::string first_host(const std::string& list);

/// What to type where an allocation was made but srun not called. `arguments` are the program's.
std::string srun_line(int tasks, const std::vector<std::string>& arguments);

}  // namespace tendril::rpc::detail
