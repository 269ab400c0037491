// CartPole-v1 solved by an agent (rank 0) that holds the policy and observers (ranks 1, 2, ...) that hold the
// environments, after PyTorch's tutorial "Getting started with distributed RPC framework".
#include <tendril/rpc/group.h>
#include <tendril/rpc/launch.h>
#include <tendril/rpc/rref.h>

#include <cstdio>
#include <exception>

#include "agent.h"
#include "names.h"
#include "options.h"
#include "report.h"
#include "show.h"

namespace rpc = tendril::rpc;
using cartpole::Agent;
using cartpole::Observer;
using cartpole::Options;

namespace {

template <class RunEpisode>
bool train(Agent& agent, const Options& options, cartpole::Report& report, RunEpisode run_episode) {
  for (int episode = 1;; ++episode) {
    run_episode();
    const double reward = agent.finish_episode();
    report.episode(reward, agent.running_reward(), agent.last_steps());
    if (agent.running_reward() > cartpole::kRewardThreshold) return true;
    if (episode == options.episodes) return false;
  }
}

// A group of one: agent and observer in one process, without RPC.
void run_alone(const Options& options) {
  Agent agent(options);
  Observer observer(1, options.steps_per_call, options.seed);
  cartpole::Report report(options, cartpole::kRewardThreshold);
  const bool solved = train(agent, options, report, [&] { agent.run_episode(observer); });
  report.finish(solved, {}, 0);
  if (options.render) cartpole::show_episode(agent, options.seed);
}

void run_agent(const Options& options) {
  const auto reference = rpc::make_rref<Agent>(options);
  Agent& agent = reference.local_value();
  cartpole::Report report(options, cartpole::kRewardThreshold);
  const bool solved = train(agent, options, report, [&] { agent.run_episode(); });
  report.finish(solved, agent.call_latencies(), agent.calls_made());
  if (options.render) cartpole::show_episode(agent, options.seed);
}

}  // namespace

namespace cartpole {

/// What each process of the group does, whoever started it. Observers wait in shutdown() and serve the agent until it
/// is done.
void run_worker(int rank, Options options) {
  options.world_size = rpc::launch_info().world_size;
  if (options.world_size == 1) return run_alone(options);
  rpc::init_rpc(rank == 0 ? kAgentName : observer_name(rank));
  if (rank == 0) run_agent(options);
  rpc::shutdown();
}

}  // namespace cartpole

int main(int argc, char** argv) {
  int status = 0;
  const auto options = cartpole::parse_options(argc, argv, status);
  if (!options) return status;
  try {
    rpc::launch<&cartpole::run_worker>(argc, argv, options->launch, *options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
  return 0;
}
