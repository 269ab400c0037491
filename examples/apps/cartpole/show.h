#pragma once

#include <tendril/autograd/grad_mode.h>
#include <tendril/tensor/random.h>
#include <tendril/tensor/tensor.h>

#include <cstdint>
#include <functional>

namespace cartpole {

/// Plays one episode and draws it: in a terminal as a real-time animation, elsewhere only the first and the last frame.
/// `scores` maps a state (1, 4) to one score per action (1, 2); the action with the higher score is taken.
void show_episode(std::int64_t seed, const std::function<tendril::Tensor(const tendril::Tensor& states)>& scores);

/// Plays an episode with the module's scores. Leaves the module in evaluation mode, without dropout.
template <class Policy>
void show_episode(std::int64_t seed, Policy& policy) {
  policy.eval();
  const tendril::NoGrad no_grad;
  show_episode(seed,
               [&](const tendril::Tensor& states) { return policy.forward(states, tendril::default_generator()); });
}

}  // namespace cartpole
