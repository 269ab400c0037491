// Copies from device to device, as the emulated runtime sees them.
#include <cuda_runtime_api.h>

#include <boost/test/unit_test.hpp>
#include <utility>

#include "tendril/tensor/raw.h"

using namespace tendril;

BOOST_AUTO_TEST_SUITE(peers)

BOOST_AUTO_TEST_CASE(devices_between_which_something_is_copied_reach_each_others_memory) {
  const Tensor x = raw::full({1000}, 3, kFloat32, {DeviceType::cuda, 0});
  for (int times = 0; times < 2; ++times) {
    const Tensor there = raw::to(x, {DeviceType::cuda, 1});
    BOOST_TEST(there.to_vector<float>() == std::vector<float>(1000, 3));
  }
  for (const auto& [device, peer] : {std::pair{0, 1}, std::pair{1, 0}}) {
    BOOST_TEST_REQUIRE(cudaSetDevice(device) == cudaSuccess);
    BOOST_TEST(cudaDeviceEnablePeerAccess(peer, 0) == cudaErrorPeerAccessAlreadyEnabled);
    cudaGetLastError();
  }
}

BOOST_AUTO_TEST_SUITE_END()
