// The real program with its shards on GPUs.
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

BOOST_AUTO_TEST_CASE(micro_batches_go_through_shards_on_one_gpu_and_on_two) {
  for (const char* device : {"cuda:0", "cuda"}) {
    const Result result =
        run(std::string("--tiny --threads 1 --batches 1 --batch-size 4 --micro-batches 2 --device ") + device);
    BOOST_TEST(result.status == 0);
    BOOST_TEST(result.err == "");
    BOOST_TEST(tendril::test::contains(result.out, "trained on 4 images"));
  }
}

BOOST_AUTO_TEST_SUITE_END()
