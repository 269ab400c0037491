#pragma once

#include <tendril/rpc/launch.h>
#include <tendril/tensor/dtype.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

/// The command line of the pipeline example.
namespace pipeline {

/// Sizes of the network and the seed of its initial values.
struct Network {
  std::int64_t base = 64;                          ///< channels of the first convolution
  std::array<std::int64_t, 4> blocks{3, 4, 6, 3};  ///< bottlenecks of each group
  std::int64_t classes = 1000;
  std::int64_t seed = 1;
  tendril::DType dtype = tendril::kFloat32;

  /// Number of layers: four in the stem, the bottlenecks, three in the classifier.
  std::size_t layers() const {
    return static_cast<std::size_t>(std::accumulate(blocks.begin(), blocks.end(), std::int64_t{7}));
  }
  /// The tutorial's cut: after the second group.
  std::size_t middle() const { return static_cast<std::size_t>(4 + blocks[0] + blocks[1]); }

  /// For remote(), which sends the options to the workers.
  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    archive& base& blocks& classes& seed& dtype;
  }
};

/// "master", "worker1", "worker2", ...
inline std::string name_of(int rank) { return rank == 0 ? "master" : "worker" + std::to_string(rank); }

struct Options {
  Network network;
  std::int64_t batch_size = 120;
  std::int64_t batches = 3;
  std::int64_t image = 128;    ///< height and width
  std::string data;            ///< a folder of CIFAR's or MNIST's files; empty: random images
  std::string device = "cpu";  ///< cpu, cuda:N, or cuda: a separate GPU per worker, if available
  int threads = 0;             ///< compute threads per worker; 0: one per core
  /// "1f1b", "gpipe" or "interleaved" (tendril/dist/pipeline), or "by-hand", the tutorial's version.
  std::string schedule = "1f1b";
  int workers = 2;            ///< workers with stages; by-hand needs two
  int stages_per_worker = 2;  ///< for interleaved
  bool recompute = false;     ///< stages keep only their inputs and recompute the rest in backward
  std::string graph;          ///< by-hand: Graphviz file for the graph of the first batch; empty: none
  bool report = false;        ///< print the cut of the network and the times of the stages
  /// One entry per run: the sizes of its micro-batches, which add up to the batch size.
  std::vector<std::vector<std::int64_t>> runs;

  tendril::rpc::LaunchOptions launch{.world_size = 3};  ///< how the processes are started
  std::string effective;                                ///< the effective value of every flag, one per line

  /// Spawned workers receive every other member.
  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    archive& network& batch_size& batches& image& data& device& threads& schedule& workers& stages_per_worker&
        recompute& graph& report& runs;
  }
};

/// Splits `batch` into `count` parts whose sizes differ by at most one, larger ones first. 1 <= count <= batch.
std::vector<std::int64_t> split_into(std::int64_t batch, std::int64_t count);
/// Splits `batch` into parts of `size`; the last part may be smaller. 1 <= size <= batch.
std::vector<std::int64_t> split_by(std::int64_t batch, std::int64_t size);

/// Parses the flags, which may be spelled with - or _. On --help or an error, prints the message, stores the exit
/// status in `exit_status`, and returns std::nullopt.
std::optional<Options> parse_options(int argc, const char* const* argv, int& exit_status);

}  // namespace pipeline
