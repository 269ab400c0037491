#include "tendril/envs/pcg64.h"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <random>

#include "tests/envs/golden.h"

BOOST_AUTO_TEST_SUITE(pcg64)

namespace envs = tendril::envs;

BOOST_AUTO_TEST_CASE(a_seed_sequence_yields_the_words_of_numpy) {
  for (const golden::Stream& expected : golden::streams) {
    BOOST_TEST_CONTEXT("seed " << expected.seed) {
      const envs::SeedSequence sequence(expected.seed);
      std::array<std::uint32_t, 6> words32;
      sequence.generate(words32);
      BOOST_TEST(words32 == expected.words32, boost::test_tools::per_element());
      std::array<std::uint64_t, 3> words64;
      sequence.generate(words64);
      BOOST_TEST(words64 == expected.words64, boost::test_tools::per_element());
    }
  }
}

BOOST_AUTO_TEST_CASE(the_raw_stream_is_the_one_of_numpy) {
  for (const golden::Stream& expected : golden::streams) {
    BOOST_TEST_CONTEXT("seed " << expected.seed) {
      envs::Pcg64 random(expected.seed);
      for (const std::uint64_t value : expected.raw) BOOST_TEST(random() == value);
      for (int i = 3; i < 999; ++i) random();
      BOOST_TEST(random() == expected.raw_number_1000);
    }
  }
}

BOOST_AUTO_TEST_CASE(uniform_numbers_are_bit_equal_to_those_of_numpy) {
  for (const golden::Stream& expected : golden::streams) {
    BOOST_TEST_CONTEXT("seed " << expected.seed) {
      envs::Pcg64 random(expected.seed);
      for (const double value : expected.uniform) BOOST_TEST(random.uniform(-0.05, 0.05) == value);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_copy_continues_with_the_same_stream) {
  envs::Pcg64 random(7);
  random();
  envs::Pcg64 copy = random;
  BOOST_TEST((copy == random));
  const std::uint64_t next = random();
  BOOST_TEST((copy != random));
  BOOST_TEST(copy() == next);
}

BOOST_AUTO_TEST_CASE(uniform_numbers_fill_the_unit_interval_evenly) {
  envs::Pcg64 random(3);
  constexpr int n = 100'000;
  double sum = 0;
  for (int i = 0; i < n; ++i) {
    const double value = random.uniform();
    BOOST_REQUIRE((value >= 0.0 && value < 1.0));
    sum += value;
  }
  BOOST_TEST(std::abs(sum / n - 0.5) < 5 * 0.2887 / std::sqrt(n));
}

BOOST_AUTO_TEST_CASE(the_generator_serves_the_distributions_of_the_standard_library) {
  static_assert(std::uniform_random_bit_generator<envs::Pcg64>);
  envs::Pcg64 random(1);
  std::uniform_int_distribution<int> coin(0, 1);
  bool seen[2] = {};
  for (int i = 0; i < 64; ++i) seen[coin(random)] = true;
  BOOST_TEST((seen[0] && seen[1]));
}

BOOST_AUTO_TEST_SUITE_END()
