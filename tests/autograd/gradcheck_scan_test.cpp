#include <boost/test/unit_test.hpp>

#include "tests/autograd/samples/samples.h"

BOOST_AUTO_TEST_SUITE(gradcheck_scan)

BOOST_AUTO_TEST_CASE(derivatives_of_both_orders_agree_with_differences) {
  for (const auto& sample : tendril::samples::scan_samples()) BOOST_TEST(tendril::samples::check(sample) == "");
}

BOOST_AUTO_TEST_SUITE_END()
