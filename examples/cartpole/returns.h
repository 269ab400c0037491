#pragma once

#include <cstdint>
#include <vector>

namespace cartpole {

/// What one observer's environments earned in one round: rewards[t] holds a reward for each environment that took step
/// t, in the order of the environments; lengths and terminated as in EpisodeEnd.
///
/// Returns one number for each reward, in the same order: r_t + gamma r_{t+1} + ... of that environment's own episode.
/// A terminated episode is worth nothing from there on. One that the time limit cut short would have gone on: it is
/// valued at 1 / (1 - gamma), what a pole that never falls earns, since it was balanced when we stopped looking. Valued
/// at nothing, good play near the limit would be blamed for the end of the episode. (Pardo et al., "Time Limits in
/// Reinforcement Learning", 2018)
std::vector<float> discounted_returns(const std::vector<std::vector<float>>& rewards,
                                      const std::vector<std::int32_t>& lengths,
                                      const std::vector<std::uint8_t>& terminated, double gamma);

/// (values - mean) / (standard deviation + eps), in place; the unbiased deviation and the eps of the tutorial.
void standardize(std::vector<float>& values);

}  // namespace cartpole
