#pragma once

#include <tendril/rpc/launch.h>

#include <cstdint>
#include <optional>
#include <string>

/// The command line of the language-model example.
namespace language_model {

struct Options {
  int world_size = 2;  ///< 2: a parameter server and a trainer. 1: one process, no RPC.
  int epochs = 10;
  std::int64_t seed = 1;  ///< Everything random follows from it.
  double lr = 0.05;
  double dropout = 0.5;
  std::int64_t tokens = 10'000;  ///< The corpus's length.
  std::int64_t batch = 5, bptt = 5;
  std::int64_t ntoken = 10, ninp = 2, nhid = 3, nlayers = 4;
  std::string device = "cpu";  ///< Where both workers compute: cpu, cuda or cuda:N.
  std::string losses;          ///< The loss of every iteration goes to this file, one a line; empty: to none.

  tendril::rpc::LaunchOptions launch;  ///< How the processes are started.

  /// Spawned workers are handed the rest.
  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    archive& world_size& epochs& seed& lr& dropout& tokens& batch& bptt& ntoken& ninp& nhid& nlayers& device& losses;
  }
};

/// Flags may be spelled with - or _. Prints the help or what is wrong and returns nothing, with the status to exit with
/// in `exit_status`.
std::optional<Options> parse_options(int argc, const char* const* argv, int& exit_status);

}  // namespace language_model
