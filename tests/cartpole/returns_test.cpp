#include "returns.h"

#include <boost/test/unit_test.hpp>
#include <cmath>

namespace tt = boost::test_tools;
using Floats = std::vector<float>;

BOOST_AUTO_TEST_SUITE(returns)

BOOST_AUTO_TEST_CASE(a_terminated_episode_is_worth_nothing_after_its_end) {
  const Floats expected = {1.75F, 1.5F, 1.0F};
  BOOST_TEST(cartpole::discounted_returns({{1}, {1}, {1}}, {3}, {1}, 0.5) == expected, tt::per_element());
}

BOOST_AUTO_TEST_CASE(a_truncated_episode_is_valued_as_if_it_went_on) {
  const Floats expected = {2, 2, 2};
  BOOST_TEST(cartpole::discounted_returns({{1}, {1}, {1}}, {3}, {0}, 0.5) == expected, tt::per_element());
}

BOOST_AUTO_TEST_CASE(each_environment_has_its_own_return) {
  // Environment 0 lasts two steps, 1 one, 2 three; rows of environments that have ended are missing.
  const std::vector<Floats> rewards = {{1, 10, 100}, {1, 100}, {100}};
  const Floats expected = {1.5F, 10, 175, 1, 150, 100};
  BOOST_TEST(cartpole::discounted_returns(rewards, {2, 1, 3}, {1, 1, 1}, 0.5) == expected, tt::per_element());
}

BOOST_AUTO_TEST_CASE(standardized_values_have_mean_zero_and_deviation_one) {
  Floats values = {1, 2, 3, 4, 10};
  cartpole::standardize(values);
  double mean = 0;
  double squares = 0;
  for (const double value : values) {
    mean += value / 5;
    squares += value * value / 4;
  }
  BOOST_TEST(std::abs(mean) < 1e-6);
  BOOST_TEST(squares == 1.0, tt::tolerance(1e-6));
  Floats equal = {3, 3, 3};
  cartpole::standardize(equal);
  for (const float value : equal) BOOST_TEST(value == 0.0F);
}

BOOST_AUTO_TEST_SUITE_END()
