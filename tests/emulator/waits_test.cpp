// How the backend waits, as the emulated runtime sees it.
#include <boost/test/unit_test.hpp>

#include "cuda_emulator/emulator.h"
#include "tendril/tensor/cuda/runtime.h"
#include "tendril/tensor/raw.h"

using namespace tendril;

BOOST_AUTO_TEST_SUITE(waits)

BOOST_AUTO_TEST_CASE(waiting_for_an_event_without_timing_lets_the_thread_sleep) {
  const Device device{DeviceType::cuda, 0};
  const auto spins = [] { return cuda_emulator::counters().spins; };
  for (const bool timing : {false, true}) {
    const auto before = spins();
    const Tensor x = raw::full({1000}, 1, kFloat32, device);
    cuda::Event event(timing);
    event.record();
    event.synchronize();
    BOOST_TEST(spins() == before + timing);
  }
}

BOOST_AUTO_TEST_SUITE_END()
