#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>

#include "options.h"

namespace language_model {

/// Prints the tutorial's line after each epoch and a summary at the end, and keeps the losses if asked for.
class Report {
 public:
  /// Throws std::runtime_error if the file for the losses cannot be written.
  explicit Report(const Options& options);
  ~Report();
  Report(const Report&) = delete;
  Report& operator=(const Report&) = delete;

  void iteration(double loss);
  void epoch();
  /// `rpcs`: requests that the group's workers sent each other meanwhile.
  void finish(std::uint64_t rpcs);

 private:
  using Clock = std::chrono::steady_clock;

  std::FILE* losses_ = nullptr;
  std::string path_;
  Clock::time_point start_ = Clock::now();
  int epochs_ = 0;
  std::int64_t iterations_ = 0, epoch_iterations_ = 0;
  double epoch_sum_ = 0, first_ = 0, last_ = 0;
};

}  // namespace language_model
