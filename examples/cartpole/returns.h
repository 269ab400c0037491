#pragma once

#include <utility>
#include <vector>

namespace cartpole {

/// What comes after a step of an environment: the next one, or the end of its episode.
enum class Then : unsigned char { next, fell, time_is_up };

/// Reward and outcome of each environment that took part in a step, in the order of the environments. The next step
/// has a row for each `next` in this one.
using Step = std::vector<std::pair<float, Then>>;

/// One number for each row of each step: r_t + gamma r_{t+1} + ... of that environment's own episode.
///
/// An episode in which the pole fell is worth nothing from there on. One that the time limit cut short would have gone
/// on: it is valued at 1 / (1 - gamma), what a pole that never falls earns, since it was balanced when we stopped
/// looking. Valued at nothing, good play near the limit would be blamed for the end of the episode. (Pardo et al.,
/// "Time Limits in Reinforcement Learning", 2018)
inline std::vector<float> discounted_returns(const std::vector<Step>& steps, double gamma) {
  std::vector<double> backwards;  // the last row of the last step first
  std::size_t after = 0;          // where in it the returns of the following step begin that no row has taken
  for (auto step = steps.rbegin(); step != steps.rend(); ++step)
    for (auto row = step->rbegin(); row != step->rend(); ++row) {
      const auto [reward, then] = *row;
      const double later = then == Then::next ? backwards.at(after++) : then == Then::fell ? 0 : 1 / (1 - gamma);
      backwards.push_back(reward + gamma * later);
    }
  return {backwards.rbegin(), backwards.rend()};
}

}  // namespace cartpole
