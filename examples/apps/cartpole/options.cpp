#include "options.h"

#include <tendril/rpc/launch.h>

#include "../support/flags.h"

namespace cartpole {

std::optional<Options> parse_options(int argc, const char* const* argv, int& exit_status) {
  constexpr std::int64_t kMany = 1'000'000;
  Options options;
  examples::Flags flags("cartpole",
                        "Solves CartPole-v1 with one agent and several observers, each in its own process.");
  flags.add_world_size(
      options.world_size, 1000,
      "Number of processes: one agent and the observers; 1: no RPC. Default under a launcher: its process count");
  flags.add("--gamma", options.gamma, {0, 1, true}, "Discount factor");
  flags.add_seed(options.seed);
  flags.add_log_interval(options.log_interval, {1, kMany}, "Episodes between status lines");
  flags.add("--steps-per-call", options.steps_per_call, {1, 1000},
            "Environments per observer, stepped together: one call carries all their observations");
  flags.add("--episodes", options.episodes, {0, 1000 * kMany},
            "Stop after this many episodes even if unsolved; 0: no limit");
  flags.add("--render", options.render, "Show an episode of the trained policy in the terminal afterwards");
  flags.add_output("--curve", options.curve, "Write the learning curve to CURVE.csv and CURVE.svg",
                   {.endings = {".csv", ".svg"}, .makes_folders = true});
  flags.add_device(options.device, "Device of the policy: cpu, cuda or cuda:N; environments stay on the CPU");
  flags.add_launch(options.launch);
  return flags.parse(argc, argv, options, exit_status, [&] {
    const tendril::rpc::LaunchInfo started = tendril::rpc::launch_info();
    if (flags.given("--world-size")) {
      options.launch.world_size = options.world_size;
    } else if (!started.launcher.empty()) {
      flags.imply("--world-size", options.world_size, started.world_size);
    }
    options.launch.default_world_size = options.world_size;
    options.effective = flags.effective();
  });
}

}  // namespace cartpole
