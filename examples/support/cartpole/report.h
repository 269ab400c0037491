#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "../curve.h"
#include "options.h"

namespace cartpole {

inline constexpr double kRewardThreshold = 475;  ///< CartPole-v1's: a running reward above it solves the task

/// What the agent's process says while it trains and when it ends. In a terminal, the last line is alive.
class Report {
 public:
  explicit Report(const Options& options);
  ~Report();  ///< leaves the terminal clean
  Report(const Report&) = delete;
  Report& operator=(const Report&) = delete;

  /// After each episode: its reward, and how many environment steps it took, of all observers. The running reward, 0 at
  /// first, goes a twentieth of the way to the reward.
  void episode(const std::pair<double, std::size_t>& reward_and_steps);

  /// Solved, or tried for as many episodes as the options allow.
  bool done() const { return solved() || (options_.episodes > 0 && episodes() >= options_.episodes); }
  int episodes() const { return static_cast<int>(points_.size()); }
  bool solved() const { return !points_.empty() && points_.back().running_reward > kRewardThreshold; }

  /// The last words: solved or not, rates, latency of the observers' calls, for which it asks them, and where the
  /// learning curve is.
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
