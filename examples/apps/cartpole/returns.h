#pragma once

#include <utility>
#include <vector>

namespace cartpole {

/// Outcome of an environment step: another step follows, the pole fell, or the time limit ended the episode.
enum class Then : unsigned char { next, fell, time_is_up };

/// Reward and outcome of each environment that took part in a step, in the order of the environments. The following
/// step has one row per `next` in this step.
using Step = std::vector<std::pair<float, Then>>;

/// Discounted returns, one per row of each step: r_t + gamma r_{t+1} + ... within that environment's episode.
///
/// An episode in which the pole fell earns nothing after the fall. An episode cut short by the time limit is credited
/// with 1 / (1 - gamma), the return of a pole that never falls, because the pole was still balanced. Crediting it with
/// nothing would punish good play near the limit. (Pardo et al., "Time Limits in Reinforcement Learning", 2018)
inline std::vector<float> discounted_returns(const std::vector<Step>& steps, double gamma) {
  std::vector<double> backwards;  // in reverse order: starts with the last row of the last step
  std::size_t after = 0;          // index of the next unused return of the following step
  for (auto step = steps.rbegin(); step != steps.rend(); ++step)
    for (auto row = step->rbegin(); row != step->rend(); ++row) {
      const auto [reward, then] = *row;
      const double later = then == Then::next ? backwards.at(after++) : then == Then::fell ? 0 : 1 / (1 - gamma);
      backwards.push_back(reward + gamma * later);
    }
  return {backwards.rbegin(), backwards.rend()};
}

}  // namespace cartpole
