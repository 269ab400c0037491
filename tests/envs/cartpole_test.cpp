#include "tendril/envs/cartpole.h"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tendril/tensor/error.h"
#include "tests/envs/golden.h"

BOOST_AUTO_TEST_SUITE(cartpole)

using tendril::envs::CartPole;
using tendril::envs::CartPoleIntegrator;
using tendril::envs::CartPoleOptions;

namespace {

constexpr CartPole::State kUpright{};
constexpr CartPole::State kFalling{0, 0, 0.2, 3};  // terminates at the next step

auto message_contains(const std::string& part) {
  return [part](const std::exception& error) {
    BOOST_TEST_MESSAGE(error.what());
    return std::string(error.what()).find(part) != std::string::npos;
  };
}

CartPole at(const CartPole::State& state, CartPoleOptions options = {}) {
  CartPole env(std::move(options));
  env.set_state(state);
  return env;
}

}  // namespace

BOOST_AUTO_TEST_CASE(initial_states_are_bit_equal_to_numpy_for_the_same_seed) {
  CartPole env;
  for (const golden::Stream& expected : golden::streams) {
    env.reset({.seed = static_cast<std::int64_t>(expected.seed)});
    BOOST_TEST(env.state() == expected.uniform, boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(reset_bounds_scale_the_same_draws) {
  CartPole env;
  // Gymnasium's docstring: reset(seed=123, options={"low": 0, "high": 1}).
  const CartPole::Observation expected = {0.6823519F, 0.05382102F, 0.22035988F, 0.18437181F};
  BOOST_TEST(env.reset({.seed = 123, .low = 0, .high = 1}) == expected, boost::test_tools::per_element());
  env.reset({.seed = 123, .low = 0.25, .high = 0.25});
  for (const double value : env.state()) BOOST_TEST(value == 0.25);
}

BOOST_AUTO_TEST_CASE(a_reset_without_a_seed_keeps_the_stream) {
  CartPole env;
  env.reset({.seed = 5});
  env.reset();
  const CartPole::State second = env.state();
  tendril::envs::Pcg64 random(5);
  for (int i = 0; i < 4; ++i) random.uniform();
  for (const double value : second) BOOST_TEST(value == random.uniform(-0.05, 0.05));
  env.reset({.seed = 5});
  BOOST_TEST((env.state() != second));
}

BOOST_AUTO_TEST_CASE(without_any_seed_two_environments_differ) {
  CartPole a;
  CartPole b;
  BOOST_TEST((a.reset() != b.reset()));
}

BOOST_AUTO_TEST_CASE(bad_reset_options_are_refused_and_change_nothing) {
  CartPole env;
  env.reset({.seed = 1});
  const CartPole::State before = env.state();
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  constexpr double huge = std::numeric_limits<double>::max();
  BOOST_CHECK_EXCEPTION(env.reset({.seed = -1}), tendril::Error, message_contains("seed must not be negative, got -1"));
  BOOST_CHECK_EXCEPTION(env.reset({.low = 1, .high = 0}), tendril::Error, message_contains("low must not exceed high"));
  BOOST_CHECK_EXCEPTION(env.reset({.low = nan}), tendril::Error, message_contains("finite"));
  BOOST_CHECK_EXCEPTION(env.reset({.low = -huge, .high = huge}), tendril::Error, message_contains("finite"));
  BOOST_TEST(env.state() == before, boost::test_tools::per_element());
  CartPole twin;
  twin.reset({.seed = 1});
  BOOST_TEST((env.reset() == twin.reset()));
}

BOOST_AUTO_TEST_CASE(wrong_actions_are_refused_and_change_nothing) {
  CartPole env;
  BOOST_CHECK_EXCEPTION(env.step(0), tendril::Error, message_contains("call reset() before the first step"));
  env.reset({.seed = 1});
  const CartPole::State before = env.state();
  BOOST_CHECK_EXCEPTION(env.step(2), tendril::Error,
                        message_contains("must be 0 (push left) or 1 (push right), got 2"));
  BOOST_CHECK_THROW(env.step(-1), tendril::Error);
  BOOST_TEST(env.state() == before, boost::test_tools::per_element());
  BOOST_TEST(env.elapsed_steps() == 0);
}

BOOST_AUTO_TEST_CASE(versions_differ_in_limit_and_threshold) {
  BOOST_TEST(tendril::envs::cartpole_v1().max_episode_steps == 500);
  BOOST_TEST(CartPole(tendril::envs::cartpole_v1()).reward_threshold() == 475.0);
  BOOST_TEST(tendril::envs::cartpole_v0().max_episode_steps == 200);
  BOOST_TEST(CartPole(tendril::envs::cartpole_v0()).reward_threshold() == 195.0);
  BOOST_CHECK_EXCEPTION(CartPole({.max_episode_steps = -1}), tendril::Error, message_contains("max_episode_steps"));
}

BOOST_AUTO_TEST_CASE(every_step_including_the_last_earns_one) {
  CartPole env = at(kFalling);
  CartPole::StepResult result = at({0, 0, 0.2, 0}).step(1);
  BOOST_TEST(!result.terminated);
  BOOST_TEST(result.reward == 1.0);
  result = env.step(1);
  BOOST_TEST(result.terminated);
  BOOST_TEST(result.done());
  BOOST_TEST(!result.truncated);
  BOOST_TEST(result.reward == 1.0);
}

BOOST_AUTO_TEST_CASE(the_sutton_barto_reward_is_minus_one_at_failure_only) {
  BOOST_TEST(at({0, 0, 0.2, 0}, {.sutton_barto_reward = true}).step(1).reward == 0.0);
  CartPole env = at(kFalling, {.sutton_barto_reward = true, .on_warning = [](std::string_view) {}});
  BOOST_TEST(env.step(1).reward == -1.0);
  BOOST_TEST(env.step(1).reward == -1.0);
}

BOOST_AUTO_TEST_CASE(steps_after_termination_earn_nothing_and_warn_once) {
  std::vector<std::string> warnings;
  CartPole env = at(kFalling, {.on_warning = [&](std::string_view text) { warnings.emplace_back(text); }});
  BOOST_TEST(env.step(1).terminated);
  BOOST_TEST(warnings.empty());
  for (int i = 0; i < 3; ++i) {
    const CartPole::StepResult result = env.step(1);
    BOOST_TEST(result.reward == 0.0);
    BOOST_TEST(result.terminated);
  }
  BOOST_REQUIRE(warnings.size() == 1);
  BOOST_TEST(warnings[0].find("already terminated") != std::string::npos);
  env.reset({.seed = 1});
  BOOST_TEST(env.step(1).reward == 1.0);
  env.set_state(kFalling);
  env.step(1);
  env.step(1);
  BOOST_TEST(warnings.size() == 2);
}

BOOST_AUTO_TEST_CASE(an_episode_that_swings_back_stays_terminated) {
  CartPole env = at({0, 0, 0.2, 1}, {.on_warning = [](std::string_view) {}});
  BOOST_REQUIRE(env.step(1).terminated);
  CartPole::StepResult result{};
  for (int i = 0; i < 20 && (i == 0 || tendril::envs::cartpole_failed(env.state())); ++i) result = env.step(1);
  BOOST_REQUIRE(!tendril::envs::cartpole_failed(env.state()));
  BOOST_TEST(result.terminated);
  BOOST_TEST(result.reward == 0.0);
}

BOOST_AUTO_TEST_CASE(the_time_limit_truncates_and_does_not_terminate) {
  for (const CartPoleOptions& options : {tendril::envs::cartpole_v1(), tendril::envs::cartpole_v0()}) {
    CartPole env(options);
    CartPole::Observation observation = env.reset({.seed = 1});
    for (int i = 1; i <= options.max_episode_steps; ++i) {
      const CartPole::StepResult result = env.step(observation[2] + observation[3] > 0);
      BOOST_REQUIRE(!result.terminated);
      BOOST_REQUIRE(result.truncated == (i == options.max_episode_steps));
      observation = result.observation;
    }
    BOOST_TEST(env.step(0).truncated);
    BOOST_TEST(env.elapsed_steps() == options.max_episode_steps + 1);
  }
}

BOOST_AUTO_TEST_CASE(an_episode_can_be_terminated_and_truncated_at_once) {
  const CartPole::StepResult result = at(kFalling, {.max_episode_steps = 1}).step(1);
  BOOST_TEST(result.terminated);
  BOOST_TEST(result.truncated);
}

BOOST_AUTO_TEST_CASE(without_a_limit_nothing_is_truncated) {
  CartPole env = at(kUpright, {.max_episode_steps = 0});
  for (int i = 0; i < 1000; ++i) {
    const CartPole::StepResult result = env.step(env.state()[2] + env.state()[3] > 0);
    BOOST_REQUIRE(!result.truncated);
    if (result.terminated) env.set_state(kUpright);
  }
}

BOOST_AUTO_TEST_CASE(the_limits_themselves_are_still_inside) {
  using P = tendril::envs::CartPolePhysics;
  BOOST_TEST(P::theta_threshold == 0.20943951023931953);
  for (const double side : {-1.0, 1.0}) {
    BOOST_TEST(!tendril::envs::cartpole_failed({side * P::x_threshold, 0, side * P::theta_threshold, 0}));
    BOOST_TEST(tendril::envs::cartpole_failed({side * std::nextafter(P::x_threshold, 3), 0, 0, 0}));
    BOOST_TEST(tendril::envs::cartpole_failed({0, 0, side * std::nextafter(P::theta_threshold, 1), 0}));
  }
}

BOOST_AUTO_TEST_CASE(an_observation_is_the_state_rounded_to_float32) {
  CartPole env;
  env.reset({.seed = 123});
  const CartPole::Observation observation = env.step(1).observation;
  for (std::size_t i = 0; i < 4; ++i) BOOST_TEST(observation[i] == static_cast<float>(env.state()[i]));
}

BOOST_AUTO_TEST_SUITE_END()
