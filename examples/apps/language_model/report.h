#pragma once

#include <tendril/nn/utils/summary_writer.h>

#include <chrono>
#include <cstdint>
#include <fstream>
#include <optional>
#include <string>

#include "options.h"

namespace language_model {

/// Prints the tutorial's line after each epoch and a final summary; optionally writes the losses to a file.
class Report {
 public:
  /// If `shows` is false, only counts. `batches` is the number per epoch. Throws std::runtime_error if the file for the
  /// losses cannot be written.
  Report(const Options& options, bool shows, std::size_t batches);

  void iteration(double loss);
  /// Ends an epoch. `valid` is the loss of the held-out text.
  void epoch(std::optional<double> valid);
  /// Prints the summary. `rpcs` is the number of requests between the workers during training.
  void finish(std::uint64_t rpcs);

  /// Progress of the run, stored in checkpoints.
  std::int64_t epochs = 0;      ///< Completed epochs.
  std::int64_t iterations = 0;  ///< Completed iterations of this epoch.
  double loss_sum = 0;          ///< Sum over those iterations.
  double first_loss = 0;        ///< Mean loss of the first epoch.

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
