// The main function of every test executable. TENDRIL_TEST_DEVICE=cuda makes the first CUDA device the default one
// (cmake/TendrilTest.cmake, "devices"); where there is none the tests are skipped.
#define BOOST_TEST_NO_MAIN
#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <iostream>
#include <string_view>

#include "tendril/tensor/cuda/runtime.h"
#include "tendril/tensor/device.h"

static bool init_unit_test() { return true; }

int main(int argc, char** argv) {
  const char* const name = std::getenv("TENDRIL_TEST_DEVICE");
  if (const std::string_view device = name ? name : "cpu"; device == "cuda") {
    if (tendril::device_count(tendril::DeviceType::cuda) == 0) {
      std::cout << "skipped: no CUDA device\n";
      return 77;
    }
    tendril::set_default_device({tendril::DeviceType::cuda, 0});
    tendril::cuda::set_convolution_tf32(false);  // results are expected to be as good as float32
    tendril::cuda::set_checked(true);            // and errors where they happen
    tendril::cuda::set_deterministic(true);      // gradcheck wants equal runs to be equal
  } else if (device != "cpu") {
    std::cerr << "TENDRIL_TEST_DEVICE: got '" << device << "', expected 'cpu' or 'cuda'\n";
    return 2;
  }
  return boost::unit_test::unit_test_main(init_unit_test, argc, argv);
}
