#include "tendril/tensor/device.h"

#include <boost/test/unit_test.hpp>
#include <sstream>
#include <string>

#include "tendril/tensor/error.h"
#include "tests/errors.h"

BOOST_AUTO_TEST_SUITE(device)

using namespace tendril;

BOOST_AUTO_TEST_CASE(there_is_one_cpu) { BOOST_TEST(device_count(DeviceType::cpu) == 1); }

BOOST_AUTO_TEST_CASE(asking_for_cuda_devices_is_no_error_where_there_are_none) {
  BOOST_TEST(device_count(DeviceType::cuda) >= 0);
}

BOOST_AUTO_TEST_CASE(a_device_prints_as_pytorch_writes_it) {
  std::ostringstream out;
  out << kCPU << " " << Device{DeviceType::cuda, 1};
  BOOST_TEST(out.str() == "cpu cuda:1");
}

BOOST_AUTO_TEST_CASE(a_device_is_read_as_pytorch_writes_it) {
  BOOST_TEST((parse_device("cpu") == kCPU));
  BOOST_TEST((parse_device("cuda") == Device{DeviceType::cuda, 0}));
  BOOST_TEST((parse_device("cuda:0") == Device{DeviceType::cuda, 0}));
  BOOST_TEST((parse_device("cuda:127") == Device{DeviceType::cuda, 127}));
  for (const char* wrong :
       {"", "gpu", "CUDA", "cuda:", "cuda:-1", "cuda:+1", "cuda:128", "cuda:1x", "cuda: 1", "cpu:0"}) {
    BOOST_CHECK_EXCEPTION(
        parse_device(wrong), Error,
        testing::says("parse_device: got '" + std::string(wrong) + "', expected cpu, cuda or cuda:N"));
  }
}

BOOST_AUTO_TEST_CASE(a_default_device_that_is_not_there_is_refused_and_changes_nothing) {
  const Device before = default_device();
  const auto count = device_count(DeviceType::cuda);
  const Device absent{DeviceType::cuda, static_cast<int8_t>(count)};
  const std::string expected = "this process has " + std::to_string(count) + " cuda device";
  BOOST_CHECK_EXCEPTION(set_default_device(absent), Error, testing::says("set_default_device", "cuda:", expected));
  BOOST_CHECK_EXCEPTION(set_default_device({DeviceType::cpu, 1}), Error, testing::says("1 cpu device"));
  BOOST_CHECK_EXCEPTION(set_default_device({DeviceType::cuda, -1}), Error, testing::says("cuda:-1"));
  BOOST_TEST((default_device() == before));
}

BOOST_AUTO_TEST_CASE(a_guard_gives_the_default_device_back) {
  const Device before = default_device();
  {
    const DefaultDeviceGuard guard(kCPU);
    BOOST_TEST(default_device().is_cpu());
  }
  BOOST_TEST((default_device() == before));
}

BOOST_AUTO_TEST_SUITE_END()
