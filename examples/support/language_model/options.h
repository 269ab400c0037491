#pragma once

#include <tendril/rpc/launch.h>

#include <cstdint>
#include <optional>
#include <string>

/// The command line of the language-model example.
namespace language_model {

struct Options {
  int world_size =
      2;  ///< 2: a parameter server and a trainer; more: as many trainers less one. 1: one process, no RPC.
  std::int64_t epochs = 10;
  std::int64_t seed = 1;  ///< Everything random follows from it.
  double lr = 0.05;
  double dropout = 0.5;
  std::string data;              ///< A text to learn: a file, or a folder of train.txt, valid.txt; empty: one is made.
  std::int64_t tokens = 10'000;  ///< The length of the corpus that is made.
  std::int64_t batch = 5, bptt = 5;
  std::int64_t ntoken = 10, ninp = 2, nhid = 3, nlayers = 4;
  std::string model = "LSTM";     ///< Or GRU, RNN_TANH, RNN_RELU, Transformer: what lies between embedding and decoder.
  std::int64_t nhead = 2;         ///< Of the Transformer's attention.
  bool tied = false;              ///< The decoder's weight is the embedding's.
  std::string device = "cpu";     ///< Where both workers compute: cpu, cuda or cuda:N.
  std::string graph;              ///< What the first iteration records on all workers, for Graphviz; empty: none.
  std::string losses;             ///< The loss of every iteration goes to this file, one a line; empty: to none.
  std::string logdir;             ///< Losses for TensorBoard; empty: none.
  std::int64_t samples = 0;       ///< Words that are written after training on a text.
  double temperature = 1;         ///< Of what is written.
  double clip = 0;                ///< Longest gradient of all parameters together; 0: any.
  std::int64_t log_interval = 0;  ///< Iterations between lines within an epoch; 0: none.
  bool dry_run = false;           ///< One iteration, to see that all works.
  std::string save;               ///< The weights that did best with the held-out text; empty: nowhere.
  std::string checkpoint;         ///< Written after each epoch, on SIGTERM and on Ctrl-C; empty: none. With several
                                  ///< workers a folder.
  bool resume = false;            ///< Go on from the checkpoint, if it is there.
  std::string effective;          ///< All flags as they are in the end, one a line.

  int trainers() const { return world_size - 1; }
  std::string name_of(int rank) const {
    return rank == 0 ? "ps" : trainers() > 1 ? "trainer" + std::to_string(rank) : "trainer";
  }
  /// Not the lesson's: another model than its LSTM, or a decoder with the embedding's weight.
  bool other_model() const { return model != "LSTM" || tied; }
  /// Features of what the decoder reads.
  std::int64_t width() const { return model == "Transformer" ? ninp : nhid; }
  /// What embedding and decoder are made of. A Transformer has dropout of its own.
  Options around_body() const {
    Options options = *this;
    options.nhid = width();
    if (model == "Transformer") options.dropout = 0;
    return options;
  }

  tendril::rpc::LaunchOptions launch;  ///< How the processes are started.

  /// Spawned workers are handed the rest.
  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    archive& world_size& epochs& seed& lr& dropout& data& tokens& batch& bptt& ntoken& ninp& nhid& nlayers& model&
        device;
    archive& nhead& tied& graph& losses& logdir& samples& temperature& clip& log_interval& dry_run& save& checkpoint&
        resume;
  }
};

/// Flags may be spelled with - or _. Prints the help or what is wrong and returns nothing, with the status to exit with
/// in `exit_status`.
std::optional<Options> parse_options(int argc, const char* const* argv, int& exit_status);

}  // namespace language_model
