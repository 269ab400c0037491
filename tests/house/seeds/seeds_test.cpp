// Test cases with and without random numbers, some of which fail on purpose: tests/house/seeds/check.sh runs them.
#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <iostream>
#include <random>

#include "tendril/tensor/random.h"
#include "tests/seed.h"

using namespace tendril::testing;

BOOST_AUTO_TEST_SUITE(seeds)

void print_draws() {
  std::cout << "drawn: " << test_seed() << ' ' << test_seed(1) << ' ' << case_engine<std::mt19937_64>()() << ' '
            << tendril::default_generator().bits() << '\n';
}

BOOST_AUTO_TEST_CASE(first) { print_draws(); }
BOOST_AUTO_TEST_CASE(second) { print_draws(); }
BOOST_AUTO_TEST_CASE(fixed_then_current) {
  std::vector<std::uint64_t> all;
  for (const std::uint64_t seed : tendril::testing::seeds({17, 99}, 2)) all.push_back(seed);
  BOOST_TEST(all == (std::vector<std::uint64_t>{17, 99, test_seed(), test_seed() + 1}),
             boost::test_tools::per_element());
}
BOOST_AUTO_TEST_CASE(fails_after_a_draw) { BOOST_TEST(test_seed() == test_seed(1)); }
BOOST_AUTO_TEST_CASE(fails_after_a_draw_by_default) { BOOST_TEST(tendril::default_generator().bits() == 0u); }
BOOST_AUTO_TEST_CASE(throws_after_a_draw) { throw test_seed(); }
BOOST_AUTO_TEST_CASE(fails_without_a_draw) { BOOST_TEST(false); }
BOOST_AUTO_TEST_CASE(fails_at_a_seed) {
  for (const std::uint64_t seed : tendril::testing::seeds({17, 99}, 2)) BOOST_TEST(seed == 17u);
  BOOST_TEST(false);
}
BOOST_AUTO_TEST_CASE(throws_at_a_seed) {
  for (const std::uint64_t seed : tendril::testing::seeds({17, 99})) BOOST_REQUIRE(seed == 17u);
}
BOOST_AUTO_TEST_CASE(aborts_at_a_seed) {
  for (const std::uint64_t seed : tendril::testing::seeds({17, 99})) {
    if (seed == 99) std::abort();
  }
}
BOOST_AUTO_TEST_CASE(fails_behind_a_loop) {
  for ([[maybe_unused]] const std::uint64_t seed : tendril::testing::seeds({17, 99})) {
  }
  BOOST_TEST(false);
}
BOOST_AUTO_TEST_CASE(aborts_after_a_draw) {
  test_seed();
  std::abort();
}

BOOST_AUTO_TEST_SUITE_END()
