#pragma once

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

  std::optional<int> rank;  ///< This process is that rank of a group started by hand; else the ranks are spawned.
  std::string master_addr = "127.0.0.1";
  int master_port = 29500;

  /// rpc::spawn hands the options to the workers.
  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    archive& world_size& epochs& seed& lr& dropout& tokens& batch& bptt& ntoken& ninp& nhid& nlayers& device& losses&
        rank& master_addr& master_port;
  }
};

/// Flags may be spelled with - or _. RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT of the environment count where the
/// flag is absent. Prints the help or what is wrong and returns nothing, with the status to exit with in `exit_status`.
std::optional<Options> parse_options(int argc, const char* const* argv, int& exit_status);

}  // namespace language_model
