#include <atomic>
#include <thread>

#include "emulated.h"

using namespace tendril::test;
using cuda_emulator::enqueue;
using cuda_emulator::launch;

namespace {

__global__ void add_one(int* x) { atomicAdd(x, 1); }

/// Queues a note that work number `what` ran.
struct Notes {
  std::vector<int> ran;
  void queue(cudaStream_t stream, int what) {
    CUDA_OK(enqueue(stream, [this, what] { ran.push_back(what); }));
  }
  void expect(const std::vector<int>& expected) const { BOOST_TEST(ran == expected, boost::test_tools::per_element()); }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(streams)

BOOST_AUTO_TEST_CASE(work_runs_in_order_and_only_when_somebody_waits_for_it) {
  const NewStream a, b;
  Notes notes;
  notes.queue(a, 1);
  notes.queue(b, 2);
  notes.queue(a, 3);
  notes.expect({});
  CUDA_OK(cudaStreamSynchronize(a));
  notes.expect({1, 3});
  CUDA_OK(cudaDeviceSynchronize());
  notes.expect({1, 3, 2});
}

BOOST_AUTO_TEST_CASE(a_stream_that_waits_for_an_event_takes_the_other_as_far_as_that) {
  const NewStream a, b;
  const NewEvent event;
  Notes notes;
  notes.queue(a, 1);
  CUDA_OK(cudaEventRecord(event, a));
  notes.queue(a, 2);
  CUDA_OK(cudaStreamWaitEvent(b, event, 0));
  notes.queue(b, 3);
  CUDA_OK(cudaStreamSynchronize(b));
  notes.expect({1, 3});
  CUDA_OK(cudaDeviceSynchronize());
  notes.expect({1, 3, 2});
}

BOOST_AUTO_TEST_CASE(without_the_event_the_other_stream_comes_too_late) {
  const NewStream a, b;
  const Array<int> x(std::vector<int>{0}), y(std::vector<int>{-1});
  CUDA_OK(launch(add_one, dim3(1), dim3(1), 0, a, x.data()));
  CUDA_OK(cudaMemcpyAsync(y.data(), x.data(), sizeof(int), cudaMemcpyDeviceToDevice, b));
  CUDA_OK(cudaStreamSynchronize(b));
  BOOST_TEST(y.values()[0] == 0);
  CUDA_OK(cudaDeviceSynchronize());
}

BOOST_AUTO_TEST_CASE(the_default_stream_and_blocking_streams_keep_the_order_of_issue) {
  const NewStream blocking(cudaStreamDefault);
  Notes notes;
  notes.queue(blocking, 1);
  notes.queue(nullptr, 2);
  notes.queue(blocking, 3);
  CUDA_OK(cudaStreamSynchronize(blocking));
  notes.expect({1, 2, 3});
  notes.queue(blocking, 4);
  notes.queue(nullptr, 5);
  CUDA_OK(cudaStreamSynchronize(nullptr));
  notes.expect({1, 2, 3, 4, 5});
}

BOOST_AUTO_TEST_CASE(the_default_stream_and_other_streams_know_nothing_of_each_other) {
  const NewStream other(cudaStreamNonBlocking);
  Notes notes;
  notes.queue(other, 1);
  notes.queue(nullptr, 2);
  notes.queue(other, 3);
  CUDA_OK(cudaStreamSynchronize(nullptr));
  notes.expect({2});
  CUDA_OK(cudaStreamSynchronize(other));
  notes.expect({2, 1, 3});
}

BOOST_AUTO_TEST_CASE(polling_is_not_ready_at_first_and_ends) {
  const NewStream stream;
  const NewEvent event;
  Notes notes;
  CUDA_OK(cudaEventQuery(event));  // never recorded
  for (int i = 0; i < 100; ++i) notes.queue(stream, i);
  CUDA_OK(cudaEventRecord(event, stream));
  BOOST_TEST(cudaEventQuery(event) == cudaErrorNotReady);
  BOOST_TEST(cudaStreamQuery(stream) == cudaErrorNotReady);
  BOOST_TEST(cudaGetLastError() == cudaErrorNotReady);
  int polls = 0;
  while (cudaEventQuery(event) == cudaErrorNotReady) BOOST_TEST_REQUIRE(++polls < 100);
  BOOST_TEST(notes.ran.size() == 100u);
  CUDA_OK(cudaStreamQuery(stream));
  cudaGetLastError();
}

BOOST_AUTO_TEST_CASE(an_event_is_what_was_recorded_last) {
  const NewStream stream;
  const NewEvent event;
  Notes notes;
  notes.queue(stream, 1);
  CUDA_OK(cudaEventRecord(event, stream));
  notes.queue(stream, 2);
  CUDA_OK(cudaEventRecord(event, stream));
  notes.queue(stream, 3);
  CUDA_OK(cudaEventSynchronize(event));
  notes.expect({1, 2});
  CUDA_OK(cudaStreamSynchronize(stream));
}

BOOST_AUTO_TEST_CASE(elapsed_time_needs_two_finished_events_with_timing) {
  const NewStream stream;
  const NewEvent start, end;
  float milliseconds = -1;
  CUDA_OK(cudaEventRecord(start, stream));
  using Clock = std::chrono::steady_clock;
  std::chrono::duration<float, std::milli> took{};
  CUDA_OK(enqueue(stream, [&took] {
    const auto begun = Clock::now();
    while (took.count() < 0.2f) took = Clock::now() - begun;
  }));
  BOOST_TEST(cudaEventElapsedTime(&milliseconds, start, end) == cudaErrorInvalidResourceHandle);  // not recorded
  CUDA_OK(cudaEventRecord(end, stream));
  BOOST_TEST(cudaEventElapsedTime(&milliseconds, start, end) == cudaErrorNotReady);
  CUDA_OK(cudaEventSynchronize(end));
  CUDA_OK(cudaEventElapsedTime(&milliseconds, start, end));
  BOOST_TEST(milliseconds >= 0.99f * took.count());
  BOOST_TEST(took.count() >= 0.2f);
  cudaEvent_t untimed = nullptr;
  CUDA_OK(cudaEventCreateWithFlags(&untimed, cudaEventDisableTiming));
  CUDA_OK(cudaEventRecord(untimed, stream));
  CUDA_OK(cudaEventSynchronize(untimed));
  BOOST_TEST(cudaEventElapsedTime(&milliseconds, start, untimed) == cudaErrorInvalidResourceHandle);
  CUDA_OK(cudaEventDestroy(untimed));
  cudaGetLastError();
}

BOOST_AUTO_TEST_CASE(queued_work_may_not_call_the_runtime) {
  const Death death = die([] {
    CUDA_OK(enqueue(nullptr, [] { cudaDeviceSynchronize(); }));
    cudaDeviceSynchronize();
  });
  BOOST_TEST(death.signal == SIGABRT);
  BOOST_TEST(death.said == "cuda_emulator: queued work called the runtime\n");
}

BOOST_AUTO_TEST_CASE(a_launch_into_a_stream_of_another_device_is_refused) {
  CUDA_OK(cudaSetDevice(1));
  const NewStream stream;
  const NewEvent event;
  CUDA_OK(cudaSetDevice(0));
  BOOST_TEST(enqueue(stream, [] {}) == cudaErrorInvalidResourceHandle);
  BOOST_TEST(cudaEventRecord(event, nullptr) == cudaErrorInvalidResourceHandle);  // device 1's event, device 0's stream
  CUDA_OK(cudaEventRecord(event, stream));
  const NewStream here;
  CUDA_OK(cudaStreamWaitEvent(here, event, 0));  // but waiting reaches across devices
  CUDA_OK(cudaStreamSynchronize(here));
  CUDA_OK(cudaEventQuery(event));
  cudaGetLastError();
}

BOOST_AUTO_TEST_CASE(a_destroyed_stream_finishes_its_work_and_takes_no_more) {
  cudaStream_t stream = nullptr;
  CUDA_OK(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0));
  Notes notes;
  notes.queue(stream, 1);
  CUDA_OK(cudaStreamDestroy(stream));
  BOOST_TEST(enqueue(stream, [] {}) == cudaErrorInvalidResourceHandle);
  BOOST_TEST(cudaStreamSynchronize(stream) == cudaErrorInvalidResourceHandle);
  BOOST_TEST(cudaStreamDestroy(stream) == cudaErrorInvalidResourceHandle);
  CUDA_OK(cudaDeviceSynchronize());
  notes.expect({1});
  cudaGetLastError();
}

BOOST_AUTO_TEST_CASE(a_destroyed_streams_handle_is_the_next_streams) {
  cudaStream_t first = nullptr;
  CUDA_OK(cudaStreamCreateWithPriority(&first, cudaStreamNonBlocking, 0));
  Notes notes;
  notes.queue(first, 1);
  CUDA_OK(cudaStreamDestroy(first));
  const NewStream second;
  BOOST_TEST((second == first));
  notes.queue(second, 2);
  CUDA_OK(cudaStreamSynchronize(first));
  notes.expect({2});  // the same handle, and another queue
  CUDA_OK(cudaDeviceSynchronize());
  notes.expect({2, 1});
}

BOOST_AUTO_TEST_CASE(a_queue_is_not_endless) {
  const NewStream stream;
  Notes notes;
  for (int i = 0; i < 5000; ++i) notes.queue(stream, i);
  BOOST_TEST(notes.ran.size() > 3000u);
  BOOST_TEST(notes.ran.size() < 5000u);
  CUDA_OK(cudaStreamSynchronize(stream));
  for (std::size_t i = 0; i < 5000; ++i) BOOST_TEST_REQUIRE(notes.ran[i] == static_cast<int>(i));
}

BOOST_AUTO_TEST_CASE(several_threads_launch_at_once) {
  const Array<int> x(std::vector<int>{0});
  std::atomic<int> failures = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      cudaStream_t stream = nullptr;
      failures += cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0) != cudaSuccess;
      for (int j = 0; j < 50; ++j) {
        failures += launch(add_one, dim3(2), dim3(8), 0, stream, x.data()) != cudaSuccess;
        if (j % 10 == 0) failures += cudaStreamSynchronize(stream) != cudaSuccess;
      }
      failures += cudaStreamSynchronize(stream) != cudaSuccess;
      failures += cudaStreamDestroy(stream) != cudaSuccess;
    });
  }
  for (std::thread& thread : threads) thread.join();
  BOOST_TEST(failures == 0);
  BOOST_TEST(x.values()[0] == 4 * 50 * 16);
}

BOOST_AUTO_TEST_CASE(counters_tell_what_was_asked_for) {
  const auto before = cuda_emulator::counters();
  {
    const Array<int> x(std::vector<int>{0});
    CUDA_OK(launch(add_one, dim3(1), dim3(1), 0, nullptr, x.data()));
    CUDA_OK(cudaMemsetAsync(x.data(), 0, sizeof(int), nullptr));
    CUDA_OK(enqueue(nullptr, [] {}));
    BOOST_TEST(cuda_emulator::counters().allocated_bytes == before.allocated_bytes + 512);
    CUDA_OK(cudaDeviceSynchronize());
  }
  const auto after = cuda_emulator::counters();
  BOOST_TEST(after.launches - before.launches == 1u);
  BOOST_TEST(after.enqueued - before.enqueued == 1u);
  BOOST_TEST(after.copies - before.copies == 1u);
  BOOST_TEST(after.copied_bytes - before.copied_bytes == sizeof(int));
  BOOST_TEST(after.fills - before.fills == 1u);
  BOOST_TEST(after.allocations - before.allocations == 1u);
  BOOST_TEST(after.frees - before.frees == 1u);
  BOOST_TEST(after.allocated_bytes == before.allocated_bytes);
  BOOST_TEST(after.synchronisations - before.synchronisations == 3u);  // a copy to the device, the wait, the free
  BOOST_TEST(after.executed - before.executed == 4u);
}

BOOST_AUTO_TEST_SUITE_END()
