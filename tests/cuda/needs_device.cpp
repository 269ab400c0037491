#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <iostream>

#include "tendril/tensor/device.h"

namespace {

/// Every test of this folder needs a device; CTest reads 77 as "skipped".
struct NeedsDevice {
  NeedsDevice() {
    if (tendril::device_count(tendril::DeviceType::cuda) > 0) return;
    std::cout << "skipped: no CUDA device\n";
    std::exit(77);
  }
};

}  // namespace

BOOST_TEST_GLOBAL_FIXTURE(NeedsDevice);
