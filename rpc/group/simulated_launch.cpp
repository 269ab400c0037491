#include "tendril/rpc/group/simulated_launch.h"

#include <cstdlib>
#include <utility>

#include "tendril/rpc/agent.h"
#include "tendril/rpc/error.h"
#include "tendril/rpc/session/agents.h"
#include "tendril/rpc/threads/reactor.h"

namespace tendril::rpc::detail {

constinit SimulateLaunch simulate_launch = nullptr;

namespace {
std::string settings() {
  const char* const text = std::getenv("TENDRIL_SIMULATE");
  return text == nullptr ? "" : text;
}
}  // namespace

bool simulation_is_wanted() { return !settings().empty(); }

void launch_simulated(int world_size, const std::function<int(WorkerId rank)>& run) {
  TENDRIL_CHECK_AS(UsageError, simulate_launch != nullptr, "rpc::launch: TENDRIL_SIMULATE is set to '", settings(),
                   "', but this program is not linked with tendril::simulation");
  TENDRIL_CHECK_AS(UsageError, world_size > 0, "rpc::launch: TENDRIL_SIMULATE is set to '", settings(),
                   "', but there is nothing to simulate: a launcher has started this process as one of several, or it "
                   "is the only worker");
  simulate_launch(settings(), world_size, run);
}

void post_to(Reactor& reactor, std::function<void()> f) { reactor.post(std::move(f)); }

std::string name_of_real_worker() {
  const auto agents = live_agents();
  return agents.empty() ? "" : agents.front()->self().name;
}

}  // namespace tendril::rpc::detail
