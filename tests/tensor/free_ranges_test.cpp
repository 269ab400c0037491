#include "tendril/tensor/cuda/runtime/free_ranges.h"
#include "tests/seed.h"

#include <boost/test/unit_test.hpp>
#include <random>
#include <utility>
#include <vector>

using tendril::cuda::FreeRanges;
using tendril::testing::test_seed;

BOOST_AUTO_TEST_SUITE(free_ranges)

BOOST_AUTO_TEST_CASE(the_first_place_that_is_large_enough_is_taken) {
  FreeRanges free(100);
  BOOST_TEST(free.take(40).value() == 0u);
  BOOST_TEST(free.take(40).value() == 40u);
  BOOST_TEST(!free.take(40).has_value());
  free.put(0, 40);
  BOOST_TEST(free.ranges() == 2u);
  BOOST_TEST(free.take(20).value() == 0u);
  BOOST_TEST(free.take(20).value() == 20u);
  BOOST_TEST(free.take(20).value() == 80u);
  BOOST_TEST(!free.take(1).has_value());
}

BOOST_AUTO_TEST_CASE(neighbours_are_one) {
  FreeRanges free(30);
  for (int i = 0; i < 3; ++i) free.take(10);
  free.put(0, 10);
  free.put(20, 10);
  BOOST_TEST(free.ranges() == 2u);
  free.put(10, 10);
  BOOST_TEST(free.ranges() == 1u);
  BOOST_TEST(free.take(30).value() == 0u);
}

BOOST_AUTO_TEST_CASE(whatever_the_order_nothing_overlaps_and_all_comes_back) {
  std::mt19937 random(test_seed());
  FreeRanges free(1000);
  std::vector<bool> taken(1000);
  std::vector<std::pair<std::size_t, std::size_t>> blocks;
  for (int i = 0; i < 20'000; ++i) {
    if (random() % 2 == 0) {
      const std::size_t bytes = 1 + random() % 60;
      const auto offset = free.take(bytes);
      if (!offset) continue;
      for (std::size_t at = *offset; at < *offset + bytes; ++at) {
        BOOST_REQUIRE(!taken[at]);
        taken[at] = true;
      }
      blocks.emplace_back(*offset, bytes);
    } else if (!blocks.empty()) {
      std::swap(blocks[random() % blocks.size()], blocks.back());
      const auto [offset, bytes] = blocks.back();
      blocks.pop_back();
      for (std::size_t at = offset; at < offset + bytes; ++at) taken[at] = false;
      free.put(offset, bytes);
    }
  }
  for (const auto& [offset, bytes] : blocks) free.put(offset, bytes);
  BOOST_TEST(free.ranges() == 1u);
  BOOST_TEST(free.take(1000).value() == 0u);
}

BOOST_AUTO_TEST_SUITE_END()
