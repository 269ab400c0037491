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

/// What the master feeds, batch by batch, saying so, and how fast that went. Not thread-safe.
class Batches {
 public:
  /// Of the images in the folder that the options name (CIFAR's or MNIST's, made as high and wide as the options say);
  /// without one random images and labels, as in the tutorial. Throws what the readers throw, and Error for fewer
  /// images than a batch has.
  explicit Batches(const Options& options);

  std::int64_t classes() const { return classes_; }
  /// Makes the next batch. False: there were as many as the options say, and how long they took has been printed.
  bool next();
  /// The first time writes the graph of the batch, on all workers, to the file that the options name, if any.
  void draw(const tendril::dist::autograd::Context& context, const tendril::Tensor& loss);
  /// What the last one's loss was. Real data's is printed.
  void learnt(double loss);

  tendril::Tensor inputs;  ///< [batch, 3, height, width]
  tendril::Tensor labels;  ///< of real data int64 [batch]; else one-hot rows [batch, classes]

 private:
  using Loader = tendril::data::DataLoader<std::tuple<tendril::Tensor, std::int64_t>>;
  void next_of_data();

  const Options options_;
  std::int64_t classes_, done_ = 0;
  tendril::Generator generator_;
  tendril::Tensor indices_;         // of the random labels' ones
  std::unique_ptr<Loader> loader_;  // null: random
  std::optional<Loader::Iterator> at_;
  std::chrono::steady_clock::time_point start_;
};

/// A few images of the options' size, of ones, to measure layers with; at most `most`.
tendril::Tensor few_images(const Options& options, std::int64_t most);

/// The line of a run that began at `start`.
void print_run(std::size_t micro_batches, std::chrono::steady_clock::time_point start);

/// Prints which layers (`cut[s]` to `cut[s + 1]`) each stage of the schedule has, and on which worker, with the seconds
/// that they cost together.
void print_cut(const tendril::dist::pipeline::Schedule& schedule, const std::vector<std::size_t>& cut,
               const std::vector<double>& costs);

}  // namespace pipeline
