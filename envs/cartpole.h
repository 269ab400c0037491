#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include "tendril/envs/pcg64.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

/// CartPole, equal to Gymnasium's CartPole-v1 and CartPole-v0 wrapped in their time limit.
namespace tendril::envs {

/// The physical constants. SI units, angles in radians; Barto, Sutton and Anderson (1983), numbers as in Gymnasium.
struct CartPolePhysics {
  static constexpr double gravity = 9.8;                               ///< m/s^2
  static constexpr double cart_mass = 1.0;                             ///< kg
  static constexpr double pole_mass = 0.1;                             ///< kg
  static constexpr double total_mass = pole_mass + cart_mass;          ///< kg
  static constexpr double half_length = 0.5;                           ///< Half of the pole's length.
  static constexpr double pole_mass_length = pole_mass * half_length;  ///< kg m
  static constexpr double force = 10.0;                                ///< Magnitude of a push.
  static constexpr double time_step = 0.02;                            ///< s
  static constexpr double x_threshold = 2.4;  ///< Beyond it, on either side, an episode terminates.
  static constexpr double theta_threshold =
      12 * 2 * 3.141592653589793 / 360;  ///< Likewise of the angle: 12 degrees, in radians.
};

/// How positions follow from speeds.
enum class CartPoleIntegrator {
  euler,                ///< Positions move by the old velocities. Gymnasium's default.
  semi_implicit_euler,  ///< Velocities first, then positions by the new velocities.
};

struct CartPoleOptions {
  CartPoleIntegrator integrator = CartPoleIntegrator::euler;  ///< How positions follow from speeds.
  /// false: 1 a step. true: 0 a step and -1 for the failing one, as in Sutton and Barto's book.
  bool sutton_barto_reward = false;
  /// The step of this number is truncated; 0 for no limit.
  int max_episode_steps = 500;
  /// Mean episode reward at which the task counts as solved. Only reported, never used.
  double reward_threshold = 475.0;
  /// Receives warnings; null writes them to standard error.
  std::function<void(std::string_view)> on_warning = {};
};

/// Options of CartPole-v1: 500 steps at most.
inline CartPoleOptions cartpole_v1() { return {}; }
/// Options of CartPole-v0: 200 steps at most.
inline CartPoleOptions cartpole_v0() { return {.max_episode_steps = 200, .reward_threshold = 195.0}; }

struct CartPoleResetOptions {
  /// Restarts the random stream; not negative. Without it the stream goes on (the first reset draws a seed from the
  /// operating system).
  std::optional<std::int64_t> seed = std::nullopt;
  /// Bounds of the uniform distribution each state variable is drawn from.
  double low = -0.05;
  double high = 0.05;  ///< The upper bound.
};

/// Throws Error for a negative seed and for bounds that are not finite or not in order.
void check_reset_options(const CartPoleResetOptions& options, std::string_view who);

/// A pole on a cart, one environment.
class CartPole {
 public:
  /// x (m), x velocity, pole angle theta (rad, 0 is upright, positive leans to the right), angular velocity.
  using State = std::array<double, 4>;
  /// The state rounded to float32.
  using Observation = std::array<float, 4>;

  /// What a step gives.
  struct StepResult {
    Observation observation;  ///< Of the state after the step.
    double reward;            ///< 1, or as sutton_barto_reward says.
    bool terminated;          ///< The pole fell or the cart left the track: the future is worth nothing.
    bool truncated;           ///< The time limit ended the episode: the future still has a value. Both may be true.
    /// The episode is over: terminated or truncated.
    bool done() const { return terminated || truncated; }
  };

  static constexpr std::int64_t push_left = 0;   ///< An action: a push to the left.
  static constexpr std::int64_t push_right = 1;  ///< ... and to the right.

  /// Throws Error if max_episode_steps is negative.
  explicit CartPole(CartPoleOptions options = {});

  /// Begins an episode. Throws Error (check_reset_options) and then changes nothing.
  Observation reset(const CartPoleResetOptions& options = {});

  /// Advances by one time step. Throws Error, and changes nothing, for an action other than push_left and push_right
  /// and before the first reset(). Once an episode is terminated it stays so until reset(): further steps move the
  /// state but are worth 0 (-1 with sutton_barto_reward), and the first of them warns. (Gymnasium calls them
  /// undefined.)
  StepResult step(std::int64_t action);

  /// The state in full precision. All zero before the first reset().
  const State& state() const { return state_; }

  /// Begins an episode in this very state; the random stream does not move.
  void set_state(const State& state);

  /// Since the last reset.
  int elapsed_steps() const { return elapsed_steps_; }
  /// From which mean reward on it counts as solved.
  double reward_threshold() const { return options_.reward_threshold; }
  /// What it was made with.
  const CartPoleOptions& options() const { return options_; }

 private:
  enum class Phase { before_reset, running, terminated, warned };

  CartPoleOptions options_;
  std::optional<Pcg64> random_;
  State state_{};
  int elapsed_steps_ = 0;
  Phase phase_ = Phase::before_reset;
};

/// The state one time step later under the horizontal force (N): the equations of motion, without episode, reward or
/// limit. Source: R. V. Florian, "Correct equations for the dynamics of the cart-pole system" (2005), without friction.
CartPole::State cartpole_dynamics(const CartPole::State& state, double force, CartPoleIntegrator integrator);

/// True when the cart has left the track or the pole leans by more than 12 degrees; strict comparisons.
bool cartpole_failed(const CartPole::State& state);

/// Rounds to float32.
CartPole::Observation cartpole_observation(const CartPole::State& state);

}  // namespace tendril::envs

TENDRIL_API_END
