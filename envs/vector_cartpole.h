#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "tendril/envs/cartpole.h"
#include "tendril/tensor/export.h"
#include "tendril/tensor/tensor.h"

TENDRIL_API_BEGIN

/// Several CartPoles stepped together, with Gymnasium's SyncVectorEnv's seeds and autoreset modes.
namespace tendril::envs {

/// What happens to an environment whose episode is done.
enum class AutoresetMode {
  /// The step after the last ignores the action and resets: first observation of the new episode, reward 0, both flags
  /// false. Such a transition belongs to no episode; learners mask it.
  next_step,
  /// The last step itself returns the new episode's first observation, with the old one's reward and flags; the
  /// observation that ended the episode is in VectorStep::final_observations.
  same_step,
  /// Stepping an environment that is done is an error; the caller resets it (VectorResetOptions::mask).
  disabled,
};

struct VectorCartPoleOptions {
  CartPoleOptions env = {};                            ///< Of each environment.
  AutoresetMode autoreset = AutoresetMode::next_step;  ///< Who resets one that is done, and when.
};

struct VectorResetOptions {
  /// Environment i is seeded with seed + i. Without it each continues with its own stream.
  std::optional<std::int64_t> seed = std::nullopt;
  double low = -0.05;  ///< Bounds of the uniform distribution of each state variable.
  double high = 0.05;  ///< The upper one.
  /// Which environments to reset: empty for all, else one flag an environment, at least one of them true.
  std::span<const bool> mask = {};
};

/// The results of one step: views into the environment's buffers, valid until its next reset(), step() or end of life.
/// Observations are float32, row-major (n, 4); the others have length n.
struct VectorStep {
  std::span<const float> observations;  ///< (n, 4).
  std::span<const double> rewards;      ///< One each.
  std::span<const bool> terminated;     ///< The pole fell or the cart left the track.
  std::span<const bool> truncated;      ///< The time limit ended the episode.
  /// AutoresetMode::same_step only: row i is the last observation of the episode that ended in this step where
  /// has_final_observation[i], else zeros. Otherwise empty.
  std::span<const float> final_observations;
  std::span<const bool> has_final_observation;  ///< Which rows of final_observations count.
};

/// Not thread-safe. Resets made by the environment itself draw from the default bounds.
class VectorCartPole {
 public:
  /// Throws Error unless num_envs is at least 1.
  explicit VectorCartPole(int num_envs, const VectorCartPoleOptions& options = {});

  /// Begins episodes; returns all n observations (n, 4), those of environments that the mask leaves alone unchanged.
  /// Throws Error, and changes nothing, for bad options and for a mask of the wrong length or without a true flag.
  std::span<const float> reset(const VectorResetOptions& options = {});

  /// One action an environment. Throws Error, and changes nothing, for a wrong number of actions, an action other than
  /// 0 and 1, before the first reset, and in AutoresetMode::disabled while an environment is done.
  VectorStep step(std::span<const std::int64_t> actions);

  /// How many side by side.
  int num_envs() const { return static_cast<int>(envs_.size()); }
  /// When finished ones begin again.
  AutoresetMode autoreset() const { return autoreset_; }
  /// The observations that the last reset() or step() returned.
  std::span<const float> observations() const { return observations_; }
  /// Environment i in full precision, 0 <= i < num_envs(); throws Error otherwise.
  const CartPole& env(int i) const;

 private:
  void check_actions(std::span<const std::int64_t> actions) const;
  void write_observation(std::vector<float>& rows, std::size_t i, const CartPole::Observation& observation);

  std::vector<CartPole> envs_;
  AutoresetMode autoreset_;
  std::vector<float> observations_;
  std::vector<float> final_observations_;
  std::vector<double> rewards_;
  // Arrays, because a span cannot look into std::vector<bool>.
  std::unique_ptr<bool[]> terminated_;
  std::unique_ptr<bool[]> truncated_;
  std::unique_ptr<bool[]> has_final_observation_;
  std::unique_ptr<bool[]> started_;
};

/// A copy of row-major observations (n, 4) as a float32 tensor of that shape. Throws Error unless 4 divides their
/// number.
Tensor observation_tensor(std::span<const float> observations);

}  // namespace tendril::envs

TENDRIL_API_END
