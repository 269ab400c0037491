#include "options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <vector>

#include "../device_flag.h"
#include "../launch_flags.h"

namespace cartpole {
namespace {

// --world_size=3 -> --world-size=3
std::string with_dashes(std::string argument) {
  if (argument.rfind("--", 0) == 0)
    std::replace(argument.begin(), std::find(argument.begin(), argument.end(), '='), '_', '-');
  return argument;
}

// CLI::Range would print the bounds as floating-point numbers.
CLI::Validator at_least(std::int64_t low, std::int64_t high) {
  return {[low, high](std::string& text) {
            std::int64_t value = 0;
            if (CLI::detail::lexical_cast(text, value) && value >= low && value <= high) return std::string();
            return "expected an integer from " + std::to_string(low) + " to " + std::to_string(high) + ", got " + text;
          },
          ""};
}

CLI::Validator discount() {
  return {[](std::string& text) {
            double value = -1;
            if (CLI::detail::lexical_cast(text, value) && value >= 0 && value < 1) return std::string();
            return "expected a number from 0 to below 1, got " + text;
          },
          ""};
}

}  // namespace

std::optional<Options> parse_options(int argc, const char* const* argv, int& exit_status) {
  Options options;
  CLI::App app{"Solves CartPole-v1 with one agent and several observers, each in a process of its own.", "cartpole"};
  app.option_defaults()->always_capture_default();
  const auto* world_size =
      app.add_option("--world-size", options.world_size,
                     "Processes: rank 0 is the agent, the others observe; 1 uses no RPC. Under a launcher: its count")
          ->check(at_least(1, 1000));
  app.add_option("--gamma", options.gamma, "Discount factor")->check(discount());
  app.add_option("--seed", options.seed, "Random seed")->check(at_least(0, std::int64_t{1} << 40));
  app.add_option("--log-interval", options.log_interval, "Episodes between status lines")
      ->check(at_least(1, 1'000'000));
  app.add_option("--steps-per-call", options.steps_per_call,
                 "Environments each observer steps together: their observations travel in one call")
      ->check(at_least(1, 1000));
  app.add_option("--episodes", options.episodes, "Stop after so many episodes even if unsolved; 0: never")
      ->check(at_least(0, 1'000'000'000));
  app.add_flag("--render", options.render, "Afterwards, show an episode of the trained policy in the terminal");
  app.add_option("--curve", options.curve, "The learning curve goes to CURVE.csv and CURVE.svg");
  examples::add_device_flag(app, options.device,
                            "Where the policy computes: cpu, cuda or cuda:N; environments stay on the CPU");
  examples::add_launch_flags(app, options.launch);
  try {
    std::vector<std::string> arguments;
    for (int i = argc - 1; i > 0; --i) arguments.push_back(with_dashes(argv[i]));  // CLI11 takes them last first
    app.parse(std::move(arguments));
    options.launch.default_world_size = options.world_size;
    if (world_size->count() > 0) options.launch.world_size = options.world_size;
  } catch (const CLI::ParseError& error) {
    exit_status = app.exit(error);
    return std::nullopt;
  }
  if (examples::device_is_missing(options.device, exit_status)) return std::nullopt;
  return options;
}

}  // namespace cartpole
