#include "returns.h"

#include <cmath>
#include <limits>

namespace cartpole {

std::vector<float> discounted_returns(const std::vector<std::vector<float>>& rewards,
                                      const std::vector<std::int32_t>& lengths,
                                      const std::vector<std::uint8_t>& terminated, double gamma) {
  std::vector<double> after(lengths.size());  // the return of what is still to come, of each environment
  for (std::size_t env = 0; env < after.size(); ++env) after[env] = terminated[env] ? 0.0 : 1 / (1 - gamma);
  std::size_t count = 0;
  for (const auto& step : rewards) count += step.size();

  std::vector<float> returns(count);
  std::size_t first = count;
  for (std::size_t t = rewards.size(); t-- > 0;) {
    first -= rewards[t].size();
    std::size_t row = 0;
    for (std::size_t env = 0; env < after.size(); ++env) {
      if (static_cast<std::size_t>(lengths[env]) <= t) continue;
      after[env] = rewards[t].at(row) + gamma * after[env];
      returns[first + row] = static_cast<float>(after[env]);
      ++row;
    }
  }
  return returns;
}

void standardize(std::vector<float>& values) {
  const auto n = static_cast<double>(values.size());
  if (values.size() < 2) return;
  double mean = 0;
  for (const double value : values) mean += value;
  mean /= n;
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  const double scale = 1 / (std::sqrt(squares / (n - 1)) + std::numeric_limits<float>::epsilon());
  for (float& value : values) value = static_cast<float>((value - mean) * scale);
}

}  // namespace cartpole
