#include "returns.h"

#include <boost/test/unit_test.hpp>

namespace tt = boost::test_tools;
using Floats = std::vector<float>;
using cartpole::discounted_returns;
using cartpole::Then;

BOOST_AUTO_TEST_SUITE(returns)

BOOST_AUTO_TEST_CASE(an_episode_that_ended_with_a_fall_is_worth_nothing_after_it) {
  const Floats expected = {1.75F, 1.5F, 1.0F};
  BOOST_TEST(discounted_returns({{{1, Then::next}}, {{1, Then::next}}, {{1, Then::fell}}}, 0.5) == expected,
             tt::per_element());
}

BOOST_AUTO_TEST_CASE(a_truncated_episode_is_valued_as_if_it_went_on) {
  const Floats expected = {2, 2, 2};
  BOOST_TEST(discounted_returns({{{1, Then::next}}, {{1, Then::next}}, {{1, Then::time_is_up}}}, 0.5) == expected,
             tt::per_element());
}

BOOST_AUTO_TEST_CASE(each_environment_has_its_own_return) {
  // Environment 0 lasts two steps, 1 one, 2 three; rows of environments that have ended are missing.
  const std::vector<cartpole::Step> steps = {{{1, Then::next}, {10, Then::fell}, {100, Then::next}},
                                             {{1, Then::fell}, {100, Then::next}},
                                             {{100, Then::time_is_up}}};
  const Floats expected = {1.5F, 10, 175.25F, 1, 150.5F, 101};
  BOOST_TEST(discounted_returns(steps, 0.5) == expected, tt::per_element());
}

BOOST_AUTO_TEST_CASE(no_steps_have_no_returns) { BOOST_TEST(discounted_returns({}, 0.5).empty()); }

BOOST_AUTO_TEST_SUITE_END()
