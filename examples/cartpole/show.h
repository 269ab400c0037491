#pragma once

#include <cstdint>

namespace cartpole {

class Agent;

/// Plays one episode with the agent's policy (its likeliest actions, no dropout) and draws it: in a terminal as an
/// animation in real time, elsewhere the first and the last frame.
void show_episode(Agent& agent, std::int64_t seed);

}  // namespace cartpole
