#pragma once

#include <string>

namespace cartpole {

inline const std::string kAgentName = "agent";
inline constexpr double kRewardThreshold = 475;  // CartPole-v1's
inline std::string observer_name(int rank) { return "observer" + std::to_string(rank); }

}  // namespace cartpole
