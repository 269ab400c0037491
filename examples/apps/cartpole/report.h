#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "curve.h"
#include "options.h"

namespace cartpole {

inline constexpr double kRewardThreshold = 475;  ///< CartPole-v1 is solved when the running reward exceeds this

/// Prints the agent's progress and final summary. In a terminal, it also redraws a live status line.
class Report {
 public:
  explicit Report(const Options& options);
  ~Report();  ///< clears the live status line
  Report(const Report&) = delete;
  Report& operator=(const Report&) = delete;

  /// Records an episode's reward and the number of environment steps that all observers took. The running reward starts
  /// at 0 and moves 5% of the way to each reward.
  void episode(const std::pair<double, std::size_t>& reward_and_steps);

  /// True when the task is solved or the episode limit is reached.
  bool done() const { return solved() || (options_.episodes > 0 && episodes() >= options_.episodes); }
  int episodes() const { return static_cast<int>(points_.size()); }
  bool solved() const { return !points_.empty() && points_.back().running_reward > kRewardThreshold; }

  /// Prints the result, rates, call latencies (fetched from the observers), and the paths of the learning curve.
  void finish();

 private:
  double seconds() const;
  void live_line();
  void clear_live_line();

  Options options_;
  bool terminal_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  double next_live_ = 0;
  std::int64_t steps_ = 0;
  std::vector<examples::CurvePoint> points_;
};

}  // namespace cartpole
