#pragma once

#include <tendril/autograd/grad_mode.h>
#include <tendril/tensor/random.h>
#include <tendril/tensor/tensor.h>

#include <cstdint>
#include <functional>

namespace cartpole {

/// Plays one episode and draws it: in a terminal as an animation in real time, elsewhere the first and the last frame.
/// `scores` makes of a state (1, 4) a number for each of the two actions (1, 2); the larger one is taken.
void show_episode(std::int64_t seed, const std::function<tendril::Tensor(const tendril::Tensor& states)>& scores);

/// With a module that does so, without dropout from here on.
template <class Policy>
void show_episode(std::int64_t seed, Policy& policy) {
  policy.eval();
  const tendril::NoGrad no_grad;
  show_episode(seed,
               [&](const tendril::Tensor& states) { return policy.forward(states, tendril::default_generator()); });
}

}  // namespace cartpole
