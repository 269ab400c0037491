// The real program with both workers on a GPU.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "tendril/tensor/device.h"
#include "tests/language_model/losses.h"

namespace {

boost::test_tools::assertion_result has_device(boost::unit_test::test_unit_id) {
  return tendril::device_count(tendril::DeviceType::cuda) > 0;
}

}  // namespace

BOOST_TEST_DECORATOR(*boost::unit_test::precondition(has_device))
BOOST_FIXTURE_TEST_SUITE(device, tendril::test::LanguageModel)

BOOST_AUTO_TEST_CASE(the_losses_on_gpus_are_those_on_the_cpu) {
  const std::vector<double> expected = losses("--tokens 100 --epochs 1 --world-size 1");
  BOOST_REQUIRE(!expected.empty());
  for (const char* flags : {"--device cuda --world-size 1", "--device cuda --world-size 2"}) {
    const std::vector<double> got = losses(std::string("--tokens 100 --epochs 1 ") + flags);
    BOOST_REQUIRE(got.size() == expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      BOOST_TEST(std::abs(got[i] - expected[i]) <= 1e-4 * expected[i],
                 flags << ", step " << i << ": " << got[i] << ", on the CPU " << expected[i]);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
