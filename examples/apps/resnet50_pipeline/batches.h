#pragma once

#include <tendril/data/loader.h>
#include <tendril/dist/autograd/context.h>
#include <tendril/dist/pipeline/schedule.h>
#include <tendril/tensor/random.h>
#include <tendril/tensor/tensor.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "options.h"

namespace pipeline {

/// The master's batches. Prints the number of each batch, and the speed at the end. Not thread-safe.
class Batches {
 public:
  /// Reads the CIFAR or MNIST folder of --data and resizes its images to --image. Without a folder, images and labels
  /// are random, as in the tutorial. Propagates the readers' exceptions; throws Error if the data has fewer images than
  /// a batch.
  explicit Batches(const Options& options);

  std::int64_t classes() const { return classes_; }
  /// Makes the next batch. After the last batch, prints the time taken and returns false.
  bool next();
  /// For the first batch, writes the graph on all workers to the file of --graph, if given.
  void draw(const tendril::dist::autograd::Context& context, const tendril::Tensor& loss);
  /// Reports the loss of the current batch, which is printed for real data.
  void learnt(double loss);

  tendril::Tensor inputs;  ///< [batch, 3, height, width]
  tendril::Tensor labels;  ///< real data: int64 [batch]; random data: one-hot rows [batch, classes]

 private:
  using Loader = tendril::data::DataLoader<std::tuple<tendril::Tensor, std::int64_t>>;
  void next_of_data();

  const Options options_;
  std::int64_t classes_, done_ = 0;
  tendril::Generator generator_;
  tendril::Tensor indices_;         // positions of the ones in the random labels
  std::unique_ptr<Loader> loader_;  // null for random data
  std::optional<Loader::Iterator> at_;
  std::chrono::steady_clock::time_point start_;
};

/// Returns images of ones, at most `most`, with the options' size, for measuring layers.
tendril::Tensor few_images(const Options& options, std::int64_t most);

/// Prints the summary line of a run that began at `start`.
void print_run(std::size_t micro_batches, std::chrono::steady_clock::time_point start);

/// Prints for each stage of the schedule its layers (`cut[s]` to `cut[s + 1]`), its worker and its total cost in ms.
void print_cut(const tendril::dist::pipeline::Schedule& schedule, const std::vector<std::size_t>& cut,
               const std::vector<double>& costs);

}  // namespace pipeline
