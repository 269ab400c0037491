#pragma once

#include <tendril/rpc/launch.h>

#include <cstdint>
#include <optional>
#include <string>

/// The command line of the CartPole example.
namespace cartpole {

struct Options {
  int world_size = 3;                  ///< Number of processes: one agent and the observers. 1: no RPC.
  double gamma = 0.99;                 ///< Discount factor, in [0, 1).
  std::int64_t seed = 543;             ///< Determines all random numbers.
  int log_interval = 10;               ///< Episodes between status lines.
  int steps_per_call = 1;              ///< Environments per observer; one call carries all their observations.
  int episodes = 0;                    ///< Stop after this many episodes even if unsolved; 0: no limit.
  bool render = false;                 ///< Show an episode of the trained policy in the terminal.
  std::string device = "cpu";          ///< Device of the policy: cpu, cuda or cuda:N.
  std::string curve = "out/cartpole";  ///< Output files of the learning curve: <curve>.csv and <curve>.svg.

  tendril::rpc::LaunchOptions launch;  ///< How the processes are started.
  std::string effective;               ///< The effective value of every flag, one per line.

  /// Spawned workers receive every other member.
  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    archive& world_size& gamma& seed& log_interval& steps_per_call& episodes& render& device& curve;
  }
};

/// Parses the flags, which may be spelled with - or _. On --help or an error, prints the message, stores the exit
/// status in `exit_status`, and returns std::nullopt.
std::optional<Options> parse_options(int argc, const char* const* argv, int& exit_status);

}  // namespace cartpole
