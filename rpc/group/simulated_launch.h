#pragma once

#include <functional>
#include <string>

#include "tendril/rpc/group/sent_messages.h"
#include "tendril/rpc/worker.h"
#include "tendril/tensor/export.h"

namespace tendril::rpc::detail {
class Reactor;
}

TENDRIL_API_BEGIN

namespace tendril::rpc {

struct SpawnContext;

namespace detail {

/// Calls `run` for every rank in a simulation. Throws SpawnError if a call throws or returns other than 0. `settings`
/// is the value of TENDRIL_SIMULATE.
using SimulateLaunch = void (*)(const std::string& settings, int world_size,
                                const std::function<int(WorkerId rank)>& run);
/// Set by the library tendril::simulation if the program links it.
extern constinit SimulateLaunch simulate_launch;

/// Whether TENDRIL_SIMULATE is set.
bool simulation_is_wanted();
/// As SimulateLaunch. `world_size` is 0 in a process that would not start workers. Throws UsageError then, and if the
/// program does not link tendril::simulation.
void launch_simulated(int world_size, const std::function<int(WorkerId rank)>& run);

// For tendril::simulation.

/// Makes the calling fibre's worker one that was started with `context`, with rank 0 at `master_addr`.
void become_simulated_worker(const SpawnContext& context, const std::string& master_addr);
/// Leaves the default group if it was not left, as at the end of a process.
void leave_default_group() noexcept;
void post_to(Reactor& reactor, std::function<void()> f);  ///< Reactor::post
/// The name of a worker of this process in a real group, or an empty string.
std::string name_of_real_worker();

}  // namespace detail
}  // namespace tendril::rpc

TENDRIL_API_END
