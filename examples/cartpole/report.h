#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "curve.h"
#include "latency.h"
#include "options.h"

namespace cartpole {

/// What the agent's process says while it trains and when it ends. In a terminal, the last line is alive.
class Report {
 public:
  Report(const Options& options, double threshold);
  ~Report();  ///< leaves the terminal clean
  Report(const Report&) = delete;
  Report& operator=(const Report&) = delete;

  /// After each episode. `steps`: environment steps it took, of all observers.
  void episode(double reward, double running_reward, std::int64_t steps);

  /// The last words: solved or not, rates, latency, and where the learning curve is. `calls` holds one record for each
  /// call the observers made, `agent_calls` counts the agent's own.
  void finish(bool solved, const LatencyHistogram& calls, std::int64_t agent_calls);

 private:
  double seconds() const;
  void live_line();
  void clear_live_line();

  Options options_;
  double threshold_;
  bool terminal_;
  bool live_ = false;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  double next_live_ = 0;
  std::int64_t steps_ = 0;
  std::vector<CurvePoint> points_;
};

}  // namespace cartpole
