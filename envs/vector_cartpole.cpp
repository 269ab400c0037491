#include "tendril/envs/vector_cartpole.h"

#include <algorithm>
#include <limits>

#include "tendril/tensor/error.h"
#include "tendril/tensor/raw.h"

namespace tendril::envs {
namespace {

constexpr std::size_t kObservationSize = 4;

std::size_t checked_count(int num_envs) {
  TENDRIL_CHECK(num_envs >= 1, "VectorCartPole: num_envs must be at least 1, got ", num_envs);
  return static_cast<std::size_t>(num_envs);
}

}  // namespace

VectorCartPole::VectorCartPole(int num_envs, const VectorCartPoleOptions& options)
    : envs_(checked_count(num_envs), CartPole(options.env)),
      autoreset_(options.autoreset),
      observations_(envs_.size() * kObservationSize),
      rewards_(envs_.size()),
      terminated_(std::make_unique<bool[]>(envs_.size())),
      truncated_(std::make_unique<bool[]>(envs_.size())),
      started_(std::make_unique<bool[]>(envs_.size())) {
  if (autoreset_ == AutoresetMode::same_step) {
    final_observations_.resize(observations_.size());
    has_final_observation_ = std::make_unique<bool[]>(envs_.size());
  }
}

const CartPole& VectorCartPole::env(int i) const {
  TENDRIL_CHECK(i >= 0 && i < num_envs(), "VectorCartPole::env: index must be in [0, ", num_envs(), "), got ", i);
  return envs_[static_cast<std::size_t>(i)];
}

void VectorCartPole::write_observation(std::vector<float>& rows, std::size_t i,
                                       const CartPole::Observation& observation) {
  std::copy(observation.begin(), observation.end(), rows.begin() + static_cast<std::ptrdiff_t>(i * kObservationSize));
}

std::span<const float> VectorCartPole::reset(const VectorResetOptions& options) {
  const std::size_t n = envs_.size();
  CartPoleResetOptions one{.seed = options.seed, .low = options.low, .high = options.high};
  check_reset_options(one, "VectorCartPole::reset");
  TENDRIL_CHECK(!options.seed || *options.seed <= std::numeric_limits<std::int64_t>::max() - num_envs(),
                "VectorCartPole::reset: seed + ", n - 1, " must fit into 64 bits, got seed ", *options.seed);
  TENDRIL_CHECK(options.mask.empty() || options.mask.size() == n,
                "VectorCartPole::reset: mask must have one flag for each of the ", n, " environments, got ",
                options.mask.size());
  TENDRIL_CHECK(options.mask.empty() || std::ranges::find(options.mask, true) != options.mask.end(),
                "VectorCartPole::reset: mask selects no environment");

  for (std::size_t i = 0; i < n; ++i) {
    if (!options.mask.empty() && !options.mask[i]) continue;
    if (options.seed) one.seed = *options.seed + static_cast<std::int64_t>(i);
    write_observation(observations_, i, envs_[i].reset(one));
    terminated_[i] = truncated_[i] = false;
    started_[i] = true;
  }
  return observations_;
}

void VectorCartPole::check_actions(std::span<const std::int64_t> actions) const {
  const std::size_t n = envs_.size();
  TENDRIL_CHECK(actions.size() == n, "VectorCartPole::step: expected ", n, " actions, one an environment, got ",
                actions.size());
  for (std::size_t i = 0; i < n; ++i) {
    TENDRIL_CHECK(actions[i] == CartPole::push_left || actions[i] == CartPole::push_right,
                  "VectorCartPole::step: action must be 0 (push left) or 1 (push right), got ", actions[i],
                  " for environment ", i);
    TENDRIL_CHECK(started_[i], "VectorCartPole::step: call reset() before the first step of environment ", i);
    TENDRIL_CHECK(autoreset_ != AutoresetMode::disabled || !(terminated_[i] || truncated_[i]),
                  "VectorCartPole::step: environment ", i,
                  " is done and autoreset is disabled; reset it first (VectorResetOptions::mask)");
  }
}

VectorStep VectorCartPole::step(std::span<const std::int64_t> actions) {
  check_actions(actions);
  const std::size_t n = envs_.size();
  const bool same_step = autoreset_ == AutoresetMode::same_step;
  if (same_step) {
    std::ranges::fill(final_observations_, 0.0F);
    std::fill_n(has_final_observation_.get(), n, false);
  }
  for (std::size_t i = 0; i < n; ++i) {
    if (autoreset_ == AutoresetMode::next_step && (terminated_[i] || truncated_[i])) {
      write_observation(observations_, i, envs_[i].reset());
      rewards_[i] = 0.0;
      terminated_[i] = truncated_[i] = false;
      continue;
    }
    CartPole::StepResult result = envs_[i].step(actions[i]);
    rewards_[i] = result.reward;
    terminated_[i] = result.terminated;
    truncated_[i] = result.truncated;
    if (same_step && result.done()) {
      write_observation(final_observations_, i, result.observation);
      has_final_observation_[i] = true;
      result.observation = envs_[i].reset();
    }
    write_observation(observations_, i, result.observation);
  }
  VectorStep step{.observations = observations_,
                  .rewards = rewards_,
                  .terminated = {terminated_.get(), n},
                  .truncated = {truncated_.get(), n}};
  if (same_step) {
    step.final_observations = final_observations_;
    step.has_final_observation = {has_final_observation_.get(), n};
  }
  return step;
}

Tensor observation_tensor(std::span<const float> observations) {
  TENDRIL_CHECK(observations.size() % kObservationSize == 0, "observation_tensor: expected rows of ", kObservationSize,
                " numbers, got ", observations.size(), " numbers");
  return raw::from_data(observations, {static_cast<int64_t>(observations.size() / kObservationSize), kObservationSize});
}

}  // namespace tendril::envs
