#include "tendril/tensor/cuda/runtime/lru.h"

#include <boost/test/unit_test.hpp>
#include <stdexcept>
#include <string>

BOOST_AUTO_TEST_SUITE(lru)

using namespace tendril;

BOOST_AUTO_TEST_CASE(what_was_not_used_for_longest_goes_first) {
  cuda::Lru<int, std::string> cache(2);
  int made = 0;
  const auto get = [&](int key) {
    return cache.get(key, [&] {
      ++made;
      return std::to_string(key);
    });
  };
  BOOST_TEST(get(1) == "1");
  BOOST_TEST(get(2) == "2");
  BOOST_TEST(get(1) == "1");
  BOOST_TEST(made == 2);
  BOOST_TEST(get(3) == "3");  // drops 2
  BOOST_TEST(cache.size() == 2u);
  BOOST_TEST(get(1) == "1");
  BOOST_TEST(made == 3);
  BOOST_TEST(get(2) == "2");
  BOOST_TEST(made == 4);
}

BOOST_AUTO_TEST_CASE(what_was_dropped_is_made_again) {
  cuda::Lru<int, int> cache(2);
  cache.get(1, [] { return 10; });
  cache.get(2, [] { return 20; });
  cache.drop(1);
  cache.drop(3);
  BOOST_TEST(cache.size() == 1u);
  BOOST_TEST(cache.get(2, [] { return 21; }) == 20);
  BOOST_TEST(cache.get(1, [] { return 11; }) == 11);
}

BOOST_AUTO_TEST_CASE(a_value_that_cannot_be_made_changes_nothing) {
  cuda::Lru<int, int> cache(1);
  cache.get(1, [] { return 10; });
  BOOST_CHECK_THROW(cache.get(2, []() -> int { throw std::runtime_error("no"); }), std::runtime_error);
  BOOST_TEST(cache.size() == 1u);
  BOOST_TEST(cache.get(1, [] { return 11; }) == 10);
}

BOOST_AUTO_TEST_SUITE_END()
