#include "latency.h"

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <stdexcept>

BOOST_AUTO_TEST_SUITE(latency)

BOOST_AUTO_TEST_CASE(what_is_timed_is_recorded_in_microseconds_also_where_it_throws) {
  const auto before = examples::call_latencies().size();
  const auto calls = examples::timed_calls();
  {
    const examples::CallTimer timer;
    const auto begin = std::chrono::steady_clock::now();
    while (std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(2)) {
    }
  }
  const auto throws = [] {
    const examples::CallTimer timer;
    throw std::runtime_error("no");
  };
  BOOST_CHECK_THROW(throws(), std::runtime_error);
  const auto latencies = examples::call_latencies();
  BOOST_TEST_REQUIRE(latencies.size() == before + 2);
  BOOST_TEST(examples::timed_calls() == calls + 2);
  BOOST_TEST(latencies[before] >= 2000);
  BOOST_TEST(latencies[before] < 60e6);
}

BOOST_AUTO_TEST_SUITE_END()
