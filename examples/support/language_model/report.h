#pragma once

#include <tendril/nn/utils/summary_writer.h>

#include <chrono>
#include <cstdint>
#include <fstream>
#include <optional>
#include <string>

#include "options.h"

namespace language_model {

/// Prints the tutorial's line after each epoch and a summary at the end, and keeps the losses if asked for.
class Report {
 public:
  /// `shows`: without, it only counts. `batches` of an epoch. Throws std::runtime_error if the file for the losses
  /// cannot be written.
  Report(const Options& options, bool shows, std::size_t batches);

  void iteration(double loss);
  /// `valid`: the loss of the held-out text.
  void epoch(std::optional<double> valid);
  /// `rpcs`: requests that the group's workers sent each other meanwhile.
  void finish(std::uint64_t rpcs);

  /// Where a run is: what a checkpoint keeps.
  std::int64_t epochs = 0;      ///< That are over.
  std::int64_t iterations = 0;  ///< Of this epoch.
  double loss_sum = 0;          ///< Of these.
  double first_loss = 0;        ///< Of the first epoch, the mean.

 private:
  using Clock = std::chrono::steady_clock;

  void log();
  void show(std::optional<double> valid);
  void check_losses() const;

  const bool shows_;
  const std::size_t batches_;
  const std::int64_t interval_;
  const std::string path_;
  std::ofstream losses_;
  int trainers_;
  std::optional<tendril::nn::utils::SummaryWriter> log_;
  Clock::time_point start_ = Clock::now();
  std::int64_t all_iterations_ = 0;
  double last_ = 0;
  double logged_sum_ = 0;  // since the last line within an epoch
  std::int64_t logged_ = 0;
  Clock::time_point logged_at_ = start_;
};

}  // namespace language_model
