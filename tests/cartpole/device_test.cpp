// The real program with the policy on a GPU.
#include <boost/test/unit_test.hpp>
#include <string>

#include "tendril/tensor/device.h"
#include "tests/example_program.h"

namespace {
boost::test_tools::assertion_result has_device(boost::unit_test::test_unit_id) {
  return tendril::device_count(tendril::DeviceType::cuda) > 0;
}
}  // namespace

BOOST_TEST_DECORATOR(*boost::unit_test::precondition(has_device))
BOOST_FIXTURE_TEST_SUITE(device, tendril::test::ExampleProgram)

BOOST_AUTO_TEST_CASE(the_policy_learns_on_a_gpu) {
  for (const char* world_size : {"1", "2"}) {
    const Result result =
        run(std::string("--device cuda --episodes 2 --log-interval 1 --render --world-size ") + world_size);
    BOOST_TEST(result.status == 0);
    BOOST_TEST(result.err == "");
    BOOST_TEST(tendril::test::contains(result.out, "Episode 2\t"));
  }
}

BOOST_AUTO_TEST_SUITE_END()
