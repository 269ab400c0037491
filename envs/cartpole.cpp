#include "tendril/envs/cartpole.h"

#include <cmath>
#include <iostream>
#include <random>
#include <utility>

#include "tendril/tensor/error.h"

namespace tendril::envs {
namespace {

std::uint64_t entropy() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

}  // namespace

// Gymnasium's expressions, operation by operation: another order of rounding would part from its trajectories.
CartPole::State cartpole_dynamics(const CartPole::State& state, double force, CartPoleIntegrator integrator) {
  using P = CartPolePhysics;
  auto [x, x_dot, theta, theta_dot] = state;
  const double cos_theta = std::cos(theta);
  const double sin_theta = std::sin(theta);
  const double temp = (force + P::pole_mass_length * (theta_dot * theta_dot) * sin_theta) / P::total_mass;
  const double theta_acc = (P::gravity * sin_theta - cos_theta * temp) /
                           (P::half_length * (4.0 / 3.0 - P::pole_mass * (cos_theta * cos_theta) / P::total_mass));
  const double x_acc = temp - P::pole_mass_length * theta_acc * cos_theta / P::total_mass;

  if (integrator == CartPoleIntegrator::euler) {
    x += P::time_step * x_dot;
    x_dot += P::time_step * x_acc;
    theta += P::time_step * theta_dot;
    theta_dot += P::time_step * theta_acc;
  } else {
    x_dot += P::time_step * x_acc;
    x += P::time_step * x_dot;
    theta_dot += P::time_step * theta_acc;
    theta += P::time_step * theta_dot;
  }
  return {x, x_dot, theta, theta_dot};
}

bool cartpole_failed(const CartPole::State& state) {
  const double x = state[0];
  const double theta = state[2];
  return x < -CartPolePhysics::x_threshold || x > CartPolePhysics::x_threshold ||
         theta < -CartPolePhysics::theta_threshold || theta > CartPolePhysics::theta_threshold;
}

CartPole::Observation cartpole_observation(const CartPole::State& state) {
  return {static_cast<float>(state[0]), static_cast<float>(state[1]), static_cast<float>(state[2]),
          static_cast<float>(state[3])};
}

void check_reset_options(const CartPoleResetOptions& options, std::string_view who) {
  TENDRIL_CHECK(!options.seed || *options.seed >= 0, who, ": seed must not be negative, got ", *options.seed);
  TENDRIL_CHECK(std::isfinite(options.low) && std::isfinite(options.high) && std::isfinite(options.high - options.low),
                who, ": low and high must be finite numbers, got low ", options.low, ", high ", options.high);
  TENDRIL_CHECK(options.low <= options.high, who, ": low must not exceed high, got low ", options.low, ", high ",
                options.high);
}

CartPole::CartPole(CartPoleOptions options) : options_(std::move(options)) {
  TENDRIL_CHECK(options_.max_episode_steps >= 0, "CartPole: max_episode_steps must be 0 (no limit) or more, got ",
                options_.max_episode_steps);
}

CartPole::Observation CartPole::reset(const CartPoleResetOptions& options) {
  check_reset_options(options, "CartPole::reset");
  if (options.seed)
    random_.emplace(static_cast<std::uint64_t>(*options.seed));
  else if (!random_)
    random_.emplace(entropy());
  State state;
  for (double& value : state) value = random_->uniform(options.low, options.high);
  set_state(state);
  return cartpole_observation(state_);
}

void CartPole::set_state(const State& state) {
  state_ = state;
  elapsed_steps_ = 0;
  phase_ = Phase::running;
}

CartPole::StepResult CartPole::step(std::int64_t action) {
  TENDRIL_CHECK(action == push_left || action == push_right,
                "CartPole::step: action must be 0 (push left) or 1 (push right), got ", action);
  TENDRIL_CHECK(phase_ != Phase::before_reset, "CartPole::step: call reset() before the first step");

  const double force = action == push_right ? CartPolePhysics::force : -CartPolePhysics::force;
  state_ = cartpole_dynamics(state_, force, options_.integrator);
  ++elapsed_steps_;

  double reward = options_.sutton_barto_reward ? 0.0 : 1.0;
  if (phase_ == Phase::running) {
    if (cartpole_failed(state_)) {
      phase_ = Phase::terminated;
      reward = options_.sutton_barto_reward ? -1.0 : 1.0;
    }
  } else {
    reward = options_.sutton_barto_reward ? -1.0 : 0.0;
    if (phase_ == Phase::terminated) {
      phase_ = Phase::warned;
      constexpr std::string_view warning =
          "CartPole::step: the episode is already terminated; call reset() first. Further steps earn nothing.";
      if (options_.on_warning)
        options_.on_warning(warning);
      else
        std::cerr << "warning: " << warning << '\n';
    }
  }
  const bool truncated = options_.max_episode_steps > 0 && elapsed_steps_ >= options_.max_episode_steps;
  return {cartpole_observation(state_), reward, phase_ != Phase::running, truncated};
}

}  // namespace tendril::envs
