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

/// The network's sizes, and what its initial values follow from.
struct Network {
  std::int64_t base = 64;                          ///< channels of the first convolution
  std::array<std::int64_t, 4> blocks{3, 4, 6, 3};  ///< bottlenecks of each group
  std::int64_t classes = 1000;
  std::int64_t seed = 1;
  tendril::DType dtype = tendril::kFloat32;

  /// How many layers it has: a stem of four, bottlenecks, a classifier of three.
  std::size_t layers() const {
    return static_cast<std::size_t>(std::accumulate(blocks.begin(), blocks.end(), std::int64_t{7}));
  }
  /// Where the tutorial cuts it: behind the second group.
  std::size_t middle() const { return static_cast<std::size_t>(4 + blocks[0] + blocks[1]); }

  /// remote() sends it to the workers.
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
  std::string device = "cpu";  ///< cpu, cuda:N, or cuda: a GPU for each shard, if there are two
  int threads = 0;             ///< of each worker; 0: as many as this machine has cores
  /// Who does what when: "1f1b", "gpipe", "interleaved" (tendril/dist/pipeline), or "by-hand", the tutorial's form.
  std::string schedule = "1f1b";
  int workers = 2;            ///< that have stages; by hand two
  int stages_per_worker = 2;  ///< interleaved
  bool recompute = false;     ///< stages keep their inputs only, and compute the rest again in backward
  std::string graph;          ///< by hand: what the first batch records on all workers, for Graphviz; empty: none
  bool report = false;        ///< prints how the network was cut and where the time went
  /// One entry for each run of the pipeline: the sizes of the micro-batches, which add up to the batch.
  std::vector<std::vector<std::int64_t>> runs;

  tendril::rpc::LaunchOptions launch{.world_size = 3};  ///< how the processes are started
  std::string effective;                                ///< all flags as they are in the end, one a line

  /// Spawned workers are handed the rest.
  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    archive& network& batch_size& batches& image& data& device& threads& schedule& workers& stages_per_worker&
        recompute& graph& report& runs;
  }
};

/// `batch` in `count` parts that differ by one at most, the larger ones first. 1 <= count <= batch.
std::vector<std::int64_t> split_into(std::int64_t batch, std::int64_t count);
/// `batch` in parts of `size`; what is left over is a smaller last part. 1 <= size <= batch.
std::vector<std::int64_t> split_by(std::int64_t batch, std::int64_t size);

/// Flags may be spelled with - or _. Prints the help or what is wrong and returns nothing, with the status to exit with
/// in `exit_status`.
std::optional<Options> parse_options(int argc, const char* const* argv, int& exit_status);

}  // namespace pipeline
