#pragma once

#include <chrono>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "tendril/rpc/launch/simulated_launch.h"
#include "tendril/rpc/spawn.h"
#include "tendril/rpc/worker.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

/// One program, however its processes are started: alone it starts its workers itself, under mpirun, srun, torchrun or
/// Kubernetes it is one of them (docs/deploy.md).
namespace tendril::rpc {

/// What a program's own flags say. It wins over the environment.
struct LaunchOptions {
  /// How many workers the user wants. A launcher must have started as many. -1: as many as it started, or else
  /// default_world_size.
  int world_size = -1;
  int default_world_size = 1;  ///< positive
  /// Join as this rank of a group whose processes are started by hand. -1: as who the environment says.
  WorkerId rank = -1;
  std::string master_addr = {};  ///< where rank 0 listens; for those who join
  int master_port = -1;          ///< and its port; default: what the launcher says, or else 29500

  // Of workers that are spawned (SpawnOptions)
  std::chrono::milliseconds grace{2000};  ///< as SpawnOptions'
  std::chrono::milliseconds timeout{0};   ///< as SpawnOptions'
};

/// Who this process is among those that were started together. What nobody has said is -1.
struct LaunchInfo {
  std::string launcher;       ///< "rpc::spawn", "torchrun", "Open MPI", "Slurm", ..., "hand"; empty: nobody
  int rank = -1;              ///< among all
  int world_size = -1;        ///< how many there are
  int local_rank = -1;        ///< among those of this host: chooses a device
  int local_world_size = -1;  ///< how many on this host
  std::string text;           ///< the same in a line, with the variables that said so
};

/// Throws UsageError if the environment contradicts itself. With TENDRIL_SHOW_LAUNCH=1 in the environment every worker
/// prints `text` to the error output as it joins.
LaunchInfo launch_info();

namespace detail {

/// True: this process is to run the function itself, as `rank`. False: workers are to be spawned, `world_size` of them.
struct LaunchPlan {
  bool runs_here = true;
  WorkerId rank = 0;
  int world_size = 1;
};
LaunchPlan plan_launch(const LaunchOptions& options);
[[noreturn]] void throw_nonzero(int result, WorkerId rank);

}  // namespace detail

/// Runs `F(rank, arguments...)` for every rank, as spawn() does, and returns when those that this process answers for
/// have returned. Where a launcher (or options.rank) says that this process is one of several, it runs here, for this
/// rank: `init_rpc` then needs neither rank, size nor address. Otherwise it is spawned once for each rank; a group of
/// one runs here. The same in all cases: launch_info().world_size says how many there are.
///
/// Contains worker_main: may be the first line of main, or come after flags are read, which a spawned worker then does
/// too. Returns this process's rank: 0 also for the one that spawned all others, which is the one to print results.
///
/// With TENDRIL_SIMULATE in the environment, for example "seed=7,faults=harsh", a program that links
/// tendril::simulation runs all workers in this process, in virtual time, instead of spawning them
/// (docs/simulation.md).
///
/// Throws what F throws here; SpawnError if a spawned worker fails or F returns other than 0; UsageError for options
/// and variables that contradict each other, and in a Slurm allocation without srun, with the line to type. From
/// then on what nobody catches ends the process with its text and status 70, not by an abort.
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
