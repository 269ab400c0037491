// The main function of every test executable. TENDRIL_TEST_DEVICE=cuda makes the first CUDA device the default one
// (cmake/TendrilTest.cmake, "devices"); where there is none the tests are skipped. TENDRIL_TEST_DETERMINISTIC=0 leaves
// that device in the mode that programs start in (scripts/gpu_check.sh runs both).
#define BOOST_TEST_NO_MAIN
#include <boost/test/tree/observer.hpp>
#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <iostream>
#include <string_view>
#include <thread>

#include "tendril/tensor/cuda/runtime.h"
#include "tendril/tensor/device.h"

namespace {

/// Boost.Test's assertions write to state that they share without a lock: a test that makes one on another thread than
/// its own is a data race, found now and then. Here it is an error each time.
struct OneThreadAsserts final : boost::unit_test::test_observer {
  void assertion_result(boost::unit_test::assertion_result) override {
    if (std::this_thread::get_id() == main_thread) return;
    std::cerr << boost::unit_test::framework::current_test_case().full_name()
              << ": an assertion on another thread than the test's: keep the value, assert when the thread has ended\n";
    std::abort();
  }
  const std::thread::id main_thread = std::this_thread::get_id();
};

bool init_unit_test() {
  static OneThreadAsserts observer;
  boost::unit_test::framework::register_observer(observer);
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  tendril::cuda::set_strict(true);  // cuDNN is called as it wants to be
  const char* const name = std::getenv("TENDRIL_TEST_DEVICE");
  if (const std::string_view device = name ? name : "cpu"; device == "cuda") {
    if (tendril::device_count(tendril::DeviceType::cuda) == 0) {
      std::cout << "skipped: no CUDA device\n";
      return 77;
    }
    const char* const mode = std::getenv("TENDRIL_TEST_DETERMINISTIC");
    const std::string_view deterministic = mode ? mode : "1";
    if (deterministic != "0" && deterministic != "1") {
      std::cerr << "TENDRIL_TEST_DETERMINISTIC: got '" << deterministic << "', expected '0' or '1'\n";
      return 2;
    }
    tendril::set_default_device({tendril::DeviceType::cuda, 0});
    tendril::cuda::set_convolution_tf32(false);              // results are expected to be as good as float32
    tendril::cuda::set_checked(true);                        // and errors where they happen
    tendril::cuda::set_deterministic(deterministic != "0");  // gradcheck wants equal runs to be equal
  } else if (device != "cpu") {
    std::cerr << "TENDRIL_TEST_DEVICE: got '" << device << "', expected 'cpu' or 'cuda'\n";
    return 2;
  }
  return boost::unit_test::unit_test_main(init_unit_test, argc, argv);
}
