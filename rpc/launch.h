#pragma once

#include <chrono>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "tendril/rpc/group/simulated_launch.h"
#include "tendril/rpc/spawn.h"
#include "tendril/rpc/worker.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

/// Runs one program regardless of how its processes are started. A process that runs alone starts the workers itself;
/// under mpirun, srun, torchrun or Kubernetes it is one of the workers (docs/deploy.md).
namespace tendril::rpc {

/// The settings from a program's command line. They take precedence over the environment.
struct LaunchOptions {
  /// The requested number of workers. A launcher must have started exactly this many. -1: as many as it started, or
  /// else default_world_size.
  int world_size = -1;
  int default_world_size = 1;  ///< 1 to 4096
  /// The rank to join as, if the processes of the group are started by hand. -1: the rank from the environment.
  WorkerId rank = -1;
  std::string master_addr = {};  ///< where rank 0 listens; for processes that join a group
  int master_port = -1;          ///< rank 0's port; default: that of the launcher, or else 29500

  // For workers that are spawned
  std::chrono::milliseconds grace{2000};  ///< see SpawnOptions
  std::chrono::milliseconds timeout{0};   ///< see SpawnOptions
};

/// The place of this process among the processes that were started together. Unknown numbers are -1.
struct LaunchInfo {
  std::string launcher;       ///< "rpc::spawn", "torchrun", "Open MPI", "Slurm", ..., "hand"; empty: none
  int rank = -1;              ///< rank among all processes
  int world_size = -1;        ///< number of processes
  int local_rank = -1;        ///< rank among the processes on this host; chooses a device
  int local_world_size = -1;  ///< number of processes on this host
  std::string text;           ///< one-line summary, with the variables that were read
};

/// Returns how this process was launched. Throws UsageError if the environment contradicts itself. If
/// TENDRIL_SHOW_LAUNCH=1 is set, every worker prints `text` to stderr as it joins.
LaunchInfo launch_info();

namespace detail {

struct LaunchPlan {
  bool runs_here = true;  ///< true: run the function in this process, as `rank`; false: spawn `world_size` workers
  WorkerId rank = 0;
  int world_size = 1;
};
LaunchPlan plan_launch(const LaunchOptions& options);
[[noreturn]] void throw_nonzero(int result, WorkerId rank);

}  // namespace detail

/// Runs `F(rank, arguments...)` for every rank, as spawn() does, and returns when the functions that this process is
/// responsible for have returned. If a launcher (or options.rank) makes this process one of several, F runs in this
/// process with its rank, and `init_rpc` needs neither rank, size nor address. Otherwise F runs in one spawned process
/// for each rank, or, if there is only one rank, in this process. In each case launch_info().world_size is the number
/// of ranks.
///
/// Calls worker_main, so it may be the first line of main. It may also come after flags are parsed; a spawned worker
/// then parses them too. Returns this process's rank, or 0 in a process that has spawned the workers, so that exactly
/// one process can print results.
///
/// With TENDRIL_SIMULATE in the environment, for example "seed=7,faults=harsh", a program that links
/// tendril::simulation runs all workers in this process, in virtual time, instead of spawning them
/// (docs/simulation.md).
///
/// Rethrows exceptions of an F that runs in this process. Throws SpawnError if a spawned worker fails or F returns a
/// non-zero value. Throws UsageError if options and variables contradict each other, and in a Slurm allocation without
/// srun, with the command line to use. From then on, an uncaught exception prints its text and ends the process with
/// exit status 70, instead of aborting it.
template <auto F, class... Args>
WorkerId launch(int argc, char** argv, const LaunchOptions& options, Args&&... arguments) {
  using Values = typename detail::SpawnTarget<F>::Arguments;
  static_assert(sizeof...(Args) == std::tuple_size_v<Values>,
                "rpc::launch: the function takes (int rank, arguments...)");
  worker_main(argc, argv);
  const detail::LaunchPlan plan = detail::plan_launch(options);
  if (detail::simulation_is_wanted()) {
    const Values values(std::forward<Args>(arguments)...);
    detail::launch_simulated(plan.runs_here ? 0 : plan.world_size, [&](WorkerId rank) {
      Message message = detail::message_of(values);
      return detail::SpawnTarget<F>::run(rank, message);
    });
    return 0;
  }
  if (!plan.runs_here) {
    spawn<F>(SpawnOptions{.world_size = plan.world_size, .grace = options.grace, .timeout = options.timeout},
             std::forward<Args>(arguments)...);
    return 0;
  }
  Values values(std::forward<Args>(arguments)...);
  std::apply(
      [&](auto&... value) {
        if constexpr (std::is_void_v<decltype(F(plan.rank, value...))>) {
          F(plan.rank, value...);
        } else if (const int result = F(plan.rank, value...); result != 0) {
          detail::throw_nonzero(result, plan.rank);
        }
      },
      values);
  return plan.rank;
}

}  // namespace tendril::rpc

TENDRIL_API_END
