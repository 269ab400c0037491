#include "latency.h"

#include <boost/test/unit_test.hpp>
#include <limits>
#include <stdexcept>

using examples::LatencyHistogram;

BOOST_AUTO_TEST_SUITE(latency)

BOOST_AUTO_TEST_CASE(an_empty_histogram_has_quantile_zero) {
  BOOST_TEST(LatencyHistogram().count() == 0U);
  BOOST_TEST(LatencyHistogram().quantile(0.5) == 0.0);
}

BOOST_AUTO_TEST_CASE(quantiles_are_exact_to_a_few_percent) {
  LatencyHistogram histogram;
  for (std::uint64_t value = 1; value <= 100'000; ++value) histogram.record(value);
  BOOST_TEST(histogram.count() == 100'000U);
  for (const double q : {0.001, 0.01, 0.1, 0.5, 0.9, 0.99, 1.0})
    BOOST_TEST(histogram.quantile(q) == q * 100'000, boost::test_tools::tolerance(0.035));
}

BOOST_AUTO_TEST_CASE(every_value_falls_into_the_bucket_that_holds_it) {
  for (std::uint64_t value = 1; value < std::uint64_t{1} << 40; value = value * 3 / 2 + 1) {
    LatencyHistogram histogram;
    histogram.record(value);
    BOOST_TEST(histogram.quantile(0.5) == static_cast<double>(value), boost::test_tools::tolerance(0.02));
  }
}

BOOST_AUTO_TEST_CASE(enormous_values_are_counted_in_the_last_bucket) {
  LatencyHistogram histogram;
  histogram.record(std::numeric_limits<std::uint64_t>::max());
  BOOST_TEST(histogram.count() == 1U);
  BOOST_TEST(histogram.quantile(1) > 0x1p39);
}

BOOST_AUTO_TEST_CASE(merging_adds_up) {
  LatencyHistogram low;
  LatencyHistogram high;
  for (int i = 0; i < 90; ++i) low.record(100);
  for (int i = 0; i < 10; ++i) high.record(10'000);
  low.merge(high);
  BOOST_TEST(low.count() == 100U);
  BOOST_TEST(low.quantile(0.5) == 100.0, boost::test_tools::tolerance(0.02));
  BOOST_TEST(low.quantile(0.99) == 10'000.0, boost::test_tools::tolerance(0.02));
}

BOOST_AUTO_TEST_CASE(what_is_timed_is_recorded_also_where_it_throws) {
  const auto before = examples::call_latencies().count();
  BOOST_TEST(examples::timed([] { return 3; }) == 3);
  BOOST_CHECK_THROW(examples::timed([] { throw std::runtime_error("no"); }), std::runtime_error);
  BOOST_TEST(examples::call_latencies().count() == before + 2);
}

BOOST_AUTO_TEST_SUITE_END()
