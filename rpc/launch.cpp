#include "tendril/rpc/launch.h"

#include <cstdlib>
#include <mutex>
#include <optional>

#include "tendril/rpc/call/uncaught.h"
#include "tendril/rpc/error.h"
#include "tendril/rpc/launch/process_launch.h"
#include "tendril/rpc/launch/spawn_registry.h"
#include "tendril/rpc/system/mutex.h"
#include "tendril/tensor/cuda/runtime.h"
#include "tendril/tensor/detail/switched_variable.h"

namespace tendril::rpc {
namespace detail {
namespace {

struct RecordedLaunch {
  detail::Mutex mutex;
  std::optional<Launched> launched;
};

RecordedLaunch& stated() {
  static auto* instance =
      new RecordedLaunch();  // never destroyed: workers may use it while static objects are destroyed
  return *instance;
}
const auto launched_switched = tendril::detail::of_each_process([]() -> auto& { return stated(); });

std::string described(const LaunchOptions& options) {
  std::string text = "world_size " + (options.world_size == -1 ? "not given" : std::to_string(options.world_size));
  if (!options.master_addr.empty()) text += ", master_addr " + options.master_addr;
  if (options.master_port != -1) text += ", master_port " + std::to_string(options.master_port);
  return text;
}

void join_as(const LaunchOptions& options, Launched launched) {
  if (!options.master_addr.empty()) launched.master_addr = options.master_addr;
  if (options.master_port != -1) launched.master_port = options.master_port;
  record_process_launch(std::move(launched));
}

/// The options contain a rank, so the user has started this process by hand.
LaunchPlan join_by_hand(const LaunchOptions& options, Launched launched) {
  if (launched.by.empty()) launched.by = "hand";
  launched.rank = options.rank;
  if (options.world_size != -1) launched.world_size = options.world_size;
  if (!launched.world_size) launched.world_size = options.default_world_size;
  launched.advice.clear();
  TENDRIL_CHECK_AS(UsageError, options.rank >= 0 && options.rank < *launched.world_size,
                   "rpc::launch: the rank must be 0 to ", *launched.world_size - 1, " in a group of world size ",
                   *launched.world_size, ", got ", options.rank);
  const LaunchPlan plan{.rank = options.rank, .world_size = *launched.world_size};
  join_as(options, std::move(launched));
  return plan;
}

LaunchPlan join_launchers(const LaunchOptions& options, Launched launched) {
  if (!launched.world_size && options.world_size != -1) launched.world_size = options.world_size;
  TENDRIL_CHECK_AS(UsageError, launched.rank, "rpc::launch: this process's rank is not known: set RANK; ",
                   launched.text());
  TENDRIL_CHECK_AS(UsageError, launched.world_size,
                   "rpc::launch: the number of processes is not known: set WORLD_SIZE; ", launched.text());
  TENDRIL_CHECK_AS(UsageError, options.world_size == -1 || options.world_size == *launched.world_size,
                   "rpc::launch: this program was told to have ", options.world_size, " workers, but there are ",
                   *launched.world_size, " processes: ", launched.text());
  const LaunchPlan plan{.rank = launched.rank.value(), .world_size = *launched.world_size};
  join_as(options, std::move(launched));
  return plan;
}

LaunchPlan start_own(const LaunchOptions& options, const Launched& launched) {
  TENDRIL_CHECK_AS(UsageError, launched.slurm_tasks == 0,
                   "rpc::launch: this is a Slurm allocation, but srun has not started this process; type: ",
                   srun_line(launched.slurm_tasks, saved_arguments()),
                   " (or unset SLURM_JOB_ID to start all workers on this host); ", launched.text());
  TENDRIL_CHECK_AS(UsageError, !launched.world_size, "rpc::launch: WORLD_SIZE=", launched.world_size.value_or(0),
                   " is set, but no rank: set RANK in each process, or unset WORLD_SIZE to have the workers started; ",
                   launched.text());
  TENDRIL_CHECK_AS(UsageError, options.master_addr.empty() && options.master_port == -1,
                   "rpc::launch: the address of rank 0 is given, but no rank (", described(options), "); ",
                   launched.text());
  const int world_size = options.world_size == -1 ? options.default_world_size : options.world_size;
  if (world_size != 1) return {.runs_here = false, .rank = 0, .world_size = world_size};
  record_process_launch({.by = "rpc::launch",
                         .rank = 0,
                         .world_size = 1,
                         .local_rank = 0,
                         .local_world_size = 1,
                         .master_addr = kLoopback,
                         .variables = "alone"});
  return {};
}

}  // namespace

Launched process_launch() {
  {
    const std::lock_guard lock(stated().mutex);
    if (stated().launched) return *stated().launched;
  }
  return detect_launcher(std::getenv);
}

void record_process_launch(Launched launched) {
  cuda::set_local_rank(launched.local_rank.value_or(0));
  const std::lock_guard lock(stated().mutex);
  stated().launched = std::move(launched);
}

LaunchPlan plan_launch(const LaunchOptions& options) {
  report_uncaught_as("");  // in many programs main only calls launch()
  const auto sensible = [](int size) { return size >= 1 && size <= 4096; };
  TENDRIL_CHECK_AS(UsageError, options.world_size == -1 || sensible(options.world_size),
                   "rpc::launch: world_size must be 1 to 4096, got ", options.world_size);
  TENDRIL_CHECK_AS(UsageError, sensible(options.default_world_size),
                   "rpc::launch: default_world_size must be 1 to 4096, got ", options.default_world_size);
  Launched launched = detect_launcher(std::getenv);
  if (options.rank != -1) return join_by_hand(options, std::move(launched));
  if (!launched.by.empty()) return join_launchers(options, std::move(launched));
  return start_own(options, launched);
}

void throw_nonzero(int result, WorkerId rank) {
  throw SpawnError("rpc::launch: the function returned " + std::to_string(result) + " for rank " + std::to_string(rank),
                   rank);
}

}  // namespace detail

LaunchInfo launch_info() {
  const detail::Launched launched = detail::process_launch();
  return {.launcher = launched.by,
          .rank = launched.rank.value_or(-1),
          .world_size = launched.world_size.value_or(-1),
          .local_rank = launched.local_rank.value_or(-1),
          .local_world_size = launched.local_world_size.value_or(-1),
          .text = launched.text()};
}

}  // namespace tendril::rpc
