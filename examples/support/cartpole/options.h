#pragma once

#include <tendril/rpc/launch.h>

#include <cstdint>
#include <optional>
#include <string>

/// The command line of the CartPole example.
namespace cartpole {

struct Options {
  int world_size = 3;          ///< Processes: rank 0 is the agent, the others observe. 1: one for both, no RPC.
  double gamma = 0.99;         ///< Discount factor, in [0, 1).
  std::int64_t seed = 543;     ///< Everything random follows from it.
  int log_interval = 10;       ///< Episodes between status lines.
  int steps_per_call = 1;      ///< Environments an observer steps together: so many observations travel in one call.
  int episodes = 0;            ///< Stop after so many episodes even if unsolved; 0: only when solved.
  bool render = false;         ///< Show an episode of the trained policy in the terminal.
  std::string device = "cpu";  ///< Where the policy computes: cpu, cuda or cuda:N.
  std::string curve = "out/cartpole";  ///< The learning curve goes to <curve>.csv and <curve>.svg.

  tendril::rpc::LaunchOptions launch;  ///< How the processes are started.
  std::string effective;               ///< All flags as they are in the end, one a line.

  /// Spawned workers are handed the rest.
  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    archive& world_size& gamma& seed& log_interval& steps_per_call& episodes& render& device& curve;
  }
};

/// Flags may be spelled with - or _. Prints the help or what is wrong and returns nothing, with the status to exit with
/// in `exit_status`.
std::optional<Options> parse_options(int argc, const char* const* argv, int& exit_status);

}  // namespace cartpole
