#include "tendril/tensor/device.h"

#include <boost/test/unit_test.hpp>
#include <sstream>

using namespace tendril;

BOOST_AUTO_TEST_SUITE(device)

BOOST_AUTO_TEST_CASE(there_is_one_cpu) { BOOST_TEST(device_count(DeviceType::cpu) == 1); }

BOOST_AUTO_TEST_CASE(asking_for_cuda_devices_is_no_error_where_there_are_none) {
  BOOST_TEST(device_count(DeviceType::cuda) >= 0);
}

BOOST_AUTO_TEST_CASE(a_device_prints_as_pytorch_writes_it) {
  std::ostringstream out;
  out << kCPU << " " << Device{DeviceType::cuda, 1};
  BOOST_TEST(out.str() == "cpu cuda:1");
}

BOOST_AUTO_TEST_SUITE_END()
