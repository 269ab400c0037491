#pragma once

#include <tendril/rpc/launch.h>

#include <cstdint>
#include <optional>
#include <string>

/// The command line of the language-model example.
namespace language_model {

struct Options {
  int world_size = 2;  ///< Number of processes: one parameter server and the trainers. 1: no RPC.
  std::int64_t epochs = 10;
  std::int64_t seed = 1;  ///< Determines all random numbers.
  double lr = 0.05;
  double dropout = 0.5;
  std::string data;              ///< A file, or a folder with train.txt and valid.txt; empty: generated.
  std::int64_t tokens = 10'000;  ///< Length of the generated corpus.
  std::int64_t batch = 5, bptt = 5;
  std::int64_t ntoken = 10, ninp = 2, nhid = 3, nlayers = 4;
  std::string model = "LSTM";     ///< Or GRU, RNN_TANH, RNN_RELU, Transformer: the part between embedding and decoder.
  std::int64_t nhead = 2;         ///< Attention heads of the Transformer.
  bool tied = false;              ///< Share the decoder's weight with the embedding.
  std::string device = "cpu";     ///< Device of both workers: cpu, cuda or cuda:N.
  std::string graph;              ///< Graphviz file for the graph of the first iteration on all workers; empty: none.
  std::string losses;             ///< File for the loss of every iteration, one per line; empty: none.
  std::string logdir;             ///< TensorBoard folder for the losses; empty: none.
  std::int64_t samples = 0;       ///< Words to generate after training on a text.
  double temperature = 1;         ///< Sampling temperature.
  double clip = 0;                ///< Maximum gradient norm over all parameters; 0: no clipping.
  std::int64_t log_interval = 0;  ///< Iterations between status lines within an epoch; 0: none.
  bool dry_run = false;           ///< One iteration, to check that everything works.
  std::string save;               ///< File for the weights with the lowest held-out loss; empty: none.
  std::string checkpoint;         ///< Written after each epoch, on SIGTERM and on Ctrl-C; empty: none. A folder
                                  ///< with several workers.
  bool resume = false;            ///< Continue from the checkpoint, if it exists.
  std::string effective;          ///< The effective value of every flag, one per line.

  int trainers() const { return world_size - 1; }
  std::string name_of(int rank) const {
    return rank == 0 ? "ps" : trainers() > 1 ? "trainer" + std::to_string(rank) : "trainer";
  }
  /// Whether the model is not RNNModel: its body is not an LSTM, or the decoder shares the embedding's weight.
  bool other_model() const { return model != "LSTM" || tied; }
  /// Number of features that the decoder reads.
  std::int64_t width() const { return model == "Transformer" ? ninp : nhid; }
  /// Options for the embedding and the decoder. A Transformer applies its own dropout.
  Options around_body() const {
    Options options = *this;
    options.nhid = width();
    if (model == "Transformer") options.dropout = 0;
    return options;
  }

  tendril::rpc::LaunchOptions launch;  ///< How the processes are started.

  /// Spawned workers receive every other member.
  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    archive& world_size& epochs& seed& lr& dropout& data& tokens& batch& bptt& ntoken& ninp& nhid& nlayers& model&
        device;
    archive& nhead& tied& graph& losses& logdir& samples& temperature& clip& log_interval& dry_run& save& checkpoint&
        resume;
  }
};

/// Parses the flags, which may be spelled with - or _. On --help or an error, prints the message, stores the exit
/// status in `exit_status`, and returns std::nullopt.
std::optional<Options> parse_options(int argc, const char* const* argv, int& exit_status);

}  // namespace language_model
