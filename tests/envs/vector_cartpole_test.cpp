#include "tendril/envs/vector_cartpole.h"

#include <array>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tendril/tensor/error.h"

BOOST_AUTO_TEST_SUITE(vector_cartpole)

using tendril::envs::AutoresetMode;
using tendril::envs::CartPole;
using tendril::envs::VectorCartPole;
using tendril::envs::VectorStep;

namespace {

namespace tt = boost::test_tools;
using Actions = std::vector<std::int64_t>;

CartPole::Observation row(std::span<const float> rows, std::size_t i) {
  return {rows[4 * i], rows[4 * i + 1], rows[4 * i + 2], rows[4 * i + 3]};
}

auto message_contains(const std::string& part) {
  return [part](const std::exception& error) { return std::string(error.what()).find(part) != std::string::npos; };
}

// Pushed right all the time, seed 123 terminates at step 9, seed 124 at another.
VectorStep push_until_done(VectorCartPole& envs, std::size_t i) {
  const Actions right(static_cast<std::size_t>(envs.num_envs()), 1);
  for (;;) {
    const VectorStep step = envs.step(right);
    if (step.terminated[i] || step.truncated[i]) return step;
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(environment_i_is_the_scalar_environment_with_seed_plus_i) {
  constexpr std::size_t n = 5;
  for (const auto mode : {AutoresetMode::next_step, AutoresetMode::same_step}) {
    VectorCartPole envs(n, {.autoreset = mode});
    std::vector<CartPole> scalars(n);
    std::vector<bool> done(n, false);
    std::span<const float> observations = envs.reset({.seed = 42});
    for (std::size_t i = 0; i < n; ++i)
      BOOST_TEST(row(observations, i) == scalars[i].reset({.seed = static_cast<std::int64_t>(42 + i)}),
                 tt::per_element());
    tendril::envs::Pcg64 random(7);
    int episodes = 0;
    for (int t = 0; t < 300; ++t) {
      Actions actions(n);
      for (auto& action : actions) action = static_cast<std::int64_t>(random() >> 63);
      const VectorStep step = envs.step(actions);
      for (std::size_t i = 0; i < n; ++i) {
        CartPole::StepResult expected{};
        if (mode == AutoresetMode::next_step && done[i]) {
          expected = {scalars[i].reset(), 0.0, false, false};
        } else {
          expected = scalars[i].step(actions[i]);
          if (mode == AutoresetMode::same_step) {
            BOOST_TEST(step.has_final_observation[i] == expected.done());
            const auto last = expected.done() ? expected.observation : CartPole::Observation{};
            BOOST_TEST(row(step.final_observations, i) == last, tt::per_element());
            if (expected.done()) expected.observation = scalars[i].reset();
          }
        }
        done[i] = expected.done();
        episodes += done[i];
        BOOST_TEST(row(step.observations, i) == expected.observation, tt::per_element());
        BOOST_TEST(step.rewards[i] == expected.reward);
        BOOST_TEST(step.terminated[i] == expected.terminated);
        BOOST_TEST(step.truncated[i] == expected.truncated);
        BOOST_TEST((envs.env(static_cast<int>(i)).state() == scalars[i].state()));
      }
    }
    BOOST_TEST(episodes > 20);
  }
}

BOOST_AUTO_TEST_CASE(next_step_autoreset_ignores_the_action_of_the_step_that_resets) {
  VectorCartPole a(1);
  VectorCartPole b(1);
  for (VectorCartPole* envs : {&a, &b}) {
    envs->reset({.seed = 123});
    const VectorStep last = push_until_done(*envs, 0);
    BOOST_TEST(last.terminated[0]);
    BOOST_TEST(last.rewards[0] == 1.0);
    BOOST_TEST(last.final_observations.empty());
    BOOST_TEST(last.has_final_observation.empty());
  }
  const VectorStep first = a.step(Actions{0});
  const CartPole::Observation observation = row(first.observations, 0);
  BOOST_TEST(first.rewards[0] == 0.0);
  BOOST_TEST(!first.terminated[0]);
  BOOST_TEST(!first.truncated[0]);
  for (const float value : observation) BOOST_TEST(std::abs(value) <= 0.05F);
  BOOST_TEST(row(b.step(Actions{1}).observations, 0) == observation, tt::per_element());
  BOOST_TEST(a.step(Actions{1}).rewards[0] == 1.0);
}

BOOST_AUTO_TEST_CASE(same_step_autoreset_returns_the_last_observation_apart) {
  VectorCartPole envs(1, {.autoreset = AutoresetMode::same_step});
  envs.reset({.seed = 123});
  const VectorStep last = push_until_done(envs, 0);
  BOOST_TEST(last.rewards[0] == 1.0);
  BOOST_TEST(last.has_final_observation[0]);
  BOOST_TEST(row(last.final_observations, 0)[2] == -.25533703F, tt::tolerance(1e-6F));
  for (const float value : row(last.observations, 0)) BOOST_TEST(std::abs(value) <= 0.05F);
  const VectorStep next = envs.step(Actions{1});
  BOOST_TEST(next.rewards[0] == 1.0);
  BOOST_TEST(!next.has_final_observation[0]);
  BOOST_TEST(row(next.final_observations, 0)[2] == 0.0F);
}

BOOST_AUTO_TEST_CASE(disabled_autoreset_leaves_resetting_to_the_caller) {
  VectorCartPole envs(3, {.autoreset = AutoresetMode::disabled});
  envs.reset({.seed = 123});
  const VectorStep last = push_until_done(envs, 0);
  BOOST_TEST(last.observations[2] < -0.2095F);
  BOOST_REQUIRE((!last.terminated[1] || !last.terminated[2]));
  BOOST_CHECK_EXCEPTION(envs.step(Actions{1, 1, 1}), tendril::Error, message_contains("environment 0 is done"));

  const std::vector<float> before(envs.observations().begin(), envs.observations().end());
  const bool mask[] = {true, false, false};
  const std::span<const float> after = envs.reset({.mask = mask});
  for (std::size_t k = 0; k < 4; ++k) BOOST_TEST(std::abs(after[k]) <= 0.05F);
  for (std::size_t k = 4; k < 12; ++k) BOOST_TEST(after[k] == before[k]);
  BOOST_TEST(!last.terminated[0]);  // the same buffer
}

BOOST_AUTO_TEST_CASE(a_masked_seed_still_counts_from_environment_0) {
  VectorCartPole envs(3);
  envs.reset({.seed = 1});
  const bool mask[] = {false, false, true};
  CartPole scalar;
  BOOST_TEST(row(envs.reset({.seed = 42, .mask = mask}), 2) == scalar.reset({.seed = 44}), tt::per_element());
}

BOOST_AUTO_TEST_CASE(truncation_resets_as_termination_does) {
  VectorCartPole envs(2, {.env = {.max_episode_steps = 3}, .autoreset = AutoresetMode::same_step});
  envs.reset({.seed = 1});
  for (int t = 1; t <= 9; ++t) {
    const VectorStep step = envs.step(Actions{t % 2, t % 2});
    BOOST_TEST(step.truncated[1] == (t % 3 == 0));
    BOOST_TEST(!step.terminated[1]);
    BOOST_TEST(step.has_final_observation[1] == (t % 3 == 0));
  }
}

BOOST_AUTO_TEST_CASE(bad_arguments_are_refused_and_change_nothing) {
  BOOST_CHECK_EXCEPTION(VectorCartPole(0), tendril::Error, message_contains("num_envs must be at least 1, got 0"));
  VectorCartPole envs(2);
  BOOST_CHECK_EXCEPTION(envs.step(Actions{0, 0}), tendril::Error, message_contains("call reset() before"));
  const bool first_only[] = {true, false};
  envs.reset({.seed = 1, .mask = first_only});
  BOOST_CHECK_EXCEPTION(envs.step(Actions{0, 0}), tendril::Error, message_contains("environment 1"));
  envs.reset({.seed = 1});
  const std::vector<float> before(envs.observations().begin(), envs.observations().end());
  BOOST_CHECK_EXCEPTION(envs.step(Actions{0}), tendril::Error, message_contains("expected 2 actions"));
  BOOST_CHECK_EXCEPTION(envs.step(Actions{0, 5}), tendril::Error, message_contains("got 5 for environment 1"));
  BOOST_CHECK_EXCEPTION(envs.reset({.seed = -3}), tendril::Error, message_contains("got -3"));
  BOOST_CHECK_EXCEPTION(envs.reset({.seed = std::numeric_limits<std::int64_t>::max()}), tendril::Error,
                        message_contains("64 bits"));
  BOOST_CHECK_THROW(envs.reset({.low = 1, .high = 0}), tendril::Error);
  const bool none[] = {false, false};
  BOOST_CHECK_EXCEPTION(envs.reset({.mask = none}), tendril::Error, message_contains("selects no environment"));
  const bool longer[] = {true, true, true};
  BOOST_CHECK_EXCEPTION(envs.reset({.mask = longer}), tendril::Error, message_contains("got 3"));
  BOOST_CHECK_THROW(envs.env(2), tendril::Error);
  BOOST_CHECK_THROW(envs.env(-1), tendril::Error);
  BOOST_TEST(envs.observations() == before, tt::per_element());
}

BOOST_AUTO_TEST_CASE(observations_become_a_tensor_of_n_rows) {
  VectorCartPole envs(3);
  const std::span<const float> observations = envs.reset({.seed = 1});
  const tendril::Tensor tensor = tendril::envs::observation_tensor(observations);
  const std::vector<float> before(observations.begin(), observations.end());
  envs.step(Actions{0, 1, 0});
  BOOST_TEST((tensor.dim() == 2 && tensor.size(0) == 3 && tensor.size(1) == 4));
  BOOST_TEST(tensor.to_vector<float>() == before, tt::per_element());  // a copy: the step has not changed it
  BOOST_CHECK_THROW(tendril::envs::observation_tensor(observations.first(5)), tendril::Error);
}

BOOST_AUTO_TEST_SUITE_END()
