// How the backend waits, as the emulated runtime sees it.
#include <cuda_runtime_api.h>

#include <boost/test/unit_test.hpp>

#include "cuda_emulator/emulator.h"
#include "tendril/tensor/cuda/runtime.h"
#include "tendril/tensor/kernels.h"
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

BOOST_AUTO_TEST_CASE(copies_from_ordinary_memory_let_the_thread_sleep) {
  const auto spins = [] { return cuda_emulator::counters().spins; };
  const Device device{DeviceType::cuda, 0};
  const Tensor x = raw::full({1000}, 1, kFloat32), there = raw::empty({1000}, kFloat32, device);
  cuda::synchronize();
  const auto before = spins();
  cuda::copy_async(raw::view_of(there).data, device, raw::view_of(x).data, kCPU, 4000);
  BOOST_TEST(spins() == before);
  BOOST_TEST(cuda::Stream::current().done());
  raw::fill_(there, 2);
  cuda::Stream::current().synchronize();  // what does not
  BOOST_TEST(spins() == before + 1);
}

BOOST_AUTO_TEST_CASE(a_question_too_early_is_no_error_of_what_comes_next) {
  const Device device{DeviceType::cuda, 0};
  cudaGetLastError();
  const Tensor x = raw::full({1000}, 1, kFloat32, device);
  cuda::Event event;
  event.record();
  const cuda::Stream side, here = cuda::Stream::current();
  raw::fill_(x, 3);
  cuda::record_stream(x, side);
  BOOST_TEST(!event.done());
  BOOST_TEST(!here.done());
  BOOST_TEST(cudaPeekAtLastError() == cudaSuccess);
  const Tensor places = raw::empty({1000}, kInt64, device);
  BOOST_CHECK_NO_THROW(kernels(device)->sort_places(raw::view_of(places), raw::view_of(x), false));
}

BOOST_AUTO_TEST_CASE(nor_is_memory_that_a_stream_still_uses) {
  const Device device{DeviceType::cuda, 0};
  const cuda::Stream side;
  cudaGetLastError();
  Tensor used = raw::full({1000}, 1, kFloat32, device);
  {
    const cuda::StreamGuard guard(side);
    for (int i = 0; i < 10; ++i) raw::fill_(used, i);
  }
  cuda::record_stream(used, side);
  used = {};
  const Tensor x = raw::full({1000}, 1, kFloat32, device), places = raw::empty({1000}, kInt64, device);
  BOOST_TEST(cudaPeekAtLastError() == cudaSuccess);
  BOOST_CHECK_NO_THROW(kernels(device)->sort_places(raw::view_of(places), raw::view_of(x), false));
}

BOOST_AUTO_TEST_SUITE_END()
