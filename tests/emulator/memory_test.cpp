#include <cmath>
#include <cstring>

#include "cuda_emulator/sanitizer.h"
#include "emulated.h"

using namespace tendril::test;
using cuda_emulator::enqueue;
using cuda_emulator::kAddressSanitizer;
using cuda_emulator::launch;

namespace {

__global__ void write_value(int* x, int value) { *x = value; }

/// Needs more than a fibre's stack.
__global__ void run_over(int* x) {
  volatile char large[1 << 20];
  for (int i = 0; i < (1 << 20); ++i) large[i] = static_cast<char>(i);
  *x = large[12345];
}

/// `f` dies of a segmentation fault and says so.
void expect_fault(const std::function<void()>& f, const std::string& message) {
  const Death death = die(f);
  BOOST_TEST(death.signal == SIGSEGV);
  BOOST_TEST(death.said.find(message) != std::string::npos, death.said);
}

/// Pinned host memory.
class Pinned {
 public:
  Pinned() {
    void* memory = nullptr;
    CUDA_OK(cudaHostAlloc(&memory, sizeof(int), cudaHostAllocDefault));
    value_ = static_cast<int*>(memory);
  }
  ~Pinned() { cudaFreeHost(value_); }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  int& operator*() const { return *value_; }
  int* get() const { return value_; }

 private:
  int* value_ = nullptr;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(memory)

BOOST_AUTO_TEST_CASE(fresh_and_freed_memory_is_nan) {
  for (int again = 0; again < 2; ++again) {
    const Array<float> x(100);
    for (const float value : x.values()) BOOST_TEST_REQUIRE(std::isnan(value));
    CUDA_OK(cudaMemsetAsync(x.data(), 0, 100 * sizeof(float), nullptr));
    BOOST_TEST(x.values()[99] == 0.0f);
  }
}

BOOST_AUTO_TEST_CASE(host_code_that_touches_device_memory_dies) {
  const Array<int> x(std::vector<int>{5});
  expect_fault([&] { x.data()[0] = 1; }, "host code touched 0x");
  const auto right_after_a_kernel = [&] {
    CUDA_OK(launch(write_value, dim3(1), dim3(1), 0, nullptr, x.data(), 7));
    CUDA_OK(cudaDeviceSynchronize());
    ::_exit(*x.data());
  };
  expect_fault(right_after_a_kernel, ", memory of device 0\n");
  BOOST_TEST(x.values()[0] == 5);
}

BOOST_AUTO_TEST_CASE(a_kernel_that_faults_is_named) {
  const auto null = [] {
    CUDA_OK(launch(write_value, dim3(1), dim3(1), 0, nullptr, nullptr, 7));
    cudaDeviceSynchronize();
  };
  expect_fault(null, "write_value(int*, int), block (0, 0, 0), thread (0, 0, 0) touched (nil)");
  const auto too_deep = [] {
    const Array<int> x(1);
    CUDA_OK(launch(run_over, dim3(1), dim3(1), 0, nullptr, x.data()));
    cudaDeviceSynchronize();
  };
  expect_fault(too_deep, "run_over(int*)");
}

BOOST_AUTO_TEST_CASE(a_write_behind_an_allocation_ends_the_process) {
  for (const int words : {1, 100}) {
    const Death death = die([=] {
      const Array<int> x(3);
      CUDA_OK(launch(write_value, dim3(1), dim3(1), 0, nullptr, x.data() + 2 + words, 7));
      cudaDeviceSynchronize();
    });
    BOOST_TEST(death.signal == SIGABRT);
    const std::string where = "byte " + std::to_string(8 + 4 * words) + " of an allocation of 12 was written";
    // AddressSanitizer says it earlier, and where in the kernel.
    BOOST_TEST(death.said.find(kAddressSanitizer ? "use-after-poison" : where) != std::string::npos, death.said);
    BOOST_TEST(death.said.find(kAddressSanitizer ? "write_value" : "write_value(int*, int)") != std::string::npos,
               death.said);
  }
}

BOOST_AUTO_TEST_CASE(a_device_runs_out_of_memory_and_recovers) {
  std::size_t free = 0, total = 0;
  CUDA_OK(cudaMemGetInfo(&free, &total));
  BOOST_TEST(free <= total);
  void* memory = &free;
  BOOST_TEST(cudaMalloc(&memory, total + 1) == cudaErrorMemoryAllocation);
  BOOST_TEST(memory == nullptr);
  BOOST_TEST(cudaGetLastError() == cudaErrorMemoryAllocation);
  const Array<int> held(1);
  BOOST_TEST(cudaMalloc(&memory, free) == cudaErrorMemoryAllocation);
  std::size_t left = 0;
  CUDA_OK(cudaMemGetInfo(&left, nullptr));
  BOOST_TEST(left == free - 512);
  cudaGetLastError();
  CUDA_OK(cudaMalloc(&memory, 1));
  CUDA_OK(cudaFree(memory));
}

BOOST_AUTO_TEST_CASE(freeing_waits_for_the_work_in_flight) {
  const NewStream stream;
  void* memory = nullptr;
  CUDA_OK(cudaMalloc(&memory, 4));
  bool ran = false;
  CUDA_OK(enqueue(stream, [&] { ran = true; }));
  CUDA_OK(cudaFree(memory));
  BOOST_TEST(ran);
  BOOST_TEST(cudaFree(memory) == cudaErrorInvalidValue);  // twice
  cudaGetLastError();
}

BOOST_AUTO_TEST_CASE(a_source_is_read_when_the_copy_runs_pinned_or_not) {
  const NewStream stream;
  const Array<int> x(1), y(1);
  int pageable = 1;
  const Pinned pinned;
  *pinned = 1;
  CUDA_OK(cudaMemcpyAsync(x.data(), &pageable, sizeof(int), cudaMemcpyHostToDevice, stream));
  CUDA_OK(cudaMemcpyAsync(y.data(), pinned.get(), sizeof(int), cudaMemcpyHostToDevice, stream));
  pageable = *pinned = 2;
  CUDA_OK(cudaStreamSynchronize(stream));
  BOOST_TEST(x.values()[0] == 2);
  BOOST_TEST(y.values()[0] == 2);
}

BOOST_AUTO_TEST_CASE(a_copy_to_pageable_memory_waits_and_one_to_pinned_memory_does_not) {
  const NewStream stream;
  const Array<int> x(1);
  CUDA_OK(launch(write_value, dim3(1), dim3(1), 0, stream, x.data(), 3));
  const Pinned pinned;
  *pinned = -1;
  CUDA_OK(cudaMemcpyAsync(pinned.get(), x.data(), sizeof(int), cudaMemcpyDeviceToHost, stream));
  BOOST_TEST(*pinned == -1);
  int pageable = -1;
  CUDA_OK(cudaMemcpyAsync(&pageable, x.data(), sizeof(int), cudaMemcpyDefault, stream));
  BOOST_TEST(pageable == 3);
  BOOST_TEST(*pinned == 3);
}

BOOST_AUTO_TEST_CASE(copies_with_a_wrong_end_are_refused) {
  const Array<int> x(std::vector<int>{1, 2});
  int host[2] = {};
  BOOST_TEST(copy_now(host, x.data(), 8, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
  BOOST_TEST(copy_now(x.data(), host, 8, cudaMemcpyDeviceToHost) == cudaErrorInvalidValue);
  BOOST_TEST(copy_now(host, x.data(), 8, cudaMemcpyDeviceToDevice) == cudaErrorInvalidValue);
  BOOST_TEST(copy_now(host, x.data(), 8, cudaMemcpyHostToHost) == cudaErrorInvalidValue);
  BOOST_TEST(copy_now(host, nullptr, 8, cudaMemcpyDefault) == cudaErrorInvalidValue);
  std::vector<unsigned char> large(513);
  BOOST_TEST(copy_now(large.data(), x.data(), 513, cudaMemcpyDefault) == cudaErrorInvalidValue);  // beyond the end
  BOOST_TEST(cudaMemsetAsync(host, 0, 8, nullptr) == cudaErrorInvalidValue);
  CUDA_OK(copy_now(host, nullptr, 0, cudaMemcpyDefault));
  CUDA_OK(copy_now(host, x.data(), 8, cudaMemcpyDefault));
  BOOST_TEST(host[1] == 2);
  cudaGetLastError();
}

BOOST_AUTO_TEST_CASE(pointers_tell_where_they_point) {
  const Array<int> x(1);
  const Pinned pinned;
  int pageable = 0;
  cudaPointerAttributes attributes;
  CUDA_OK(cudaPointerGetAttributes(&attributes, x.data()));
  BOOST_TEST(attributes.type == cudaMemoryTypeDevice);
  BOOST_TEST(attributes.device == 0);
  CUDA_OK(cudaPointerGetAttributes(&attributes, pinned.get()));
  BOOST_TEST(attributes.type == cudaMemoryTypeHost);
  CUDA_OK(cudaPointerGetAttributes(&attributes, &pageable));
  BOOST_TEST(attributes.type == cudaMemoryTypeUnregistered);
}

BOOST_AUTO_TEST_CASE(another_devices_memory_is_reached_by_copies_and_by_enabled_peers_only) {
  const Array<int> here(std::vector<int>{6});
  CUDA_OK(cudaSetDevice(1));
  const Array<int> there(std::vector<int>{-1});
  CUDA_OK(cudaMemcpyPeerAsync(there.data(), 1, here.data(), 0, sizeof(int), nullptr));
  BOOST_TEST(there.values()[0] == 6);
  BOOST_TEST(cudaMemcpyPeerAsync(there.data(), 0, here.data(), 1, sizeof(int), nullptr) == cudaErrorInvalidValue);
  const auto across = [&] {
    CUDA_OK(launch(write_value, dim3(1), dim3(1), 0, nullptr, here.data(), 8));
    cudaDeviceSynchronize();
  };
  expect_fault(across, "memory of device 0, which it has no access to");
  CUDA_OK(cudaDeviceEnablePeerAccess(0, 0));
  BOOST_TEST(cudaDeviceEnablePeerAccess(0, 0) == cudaErrorPeerAccessAlreadyEnabled);
  CUDA_OK(launch(write_value, dim3(1), dim3(1), 0, nullptr, here.data(), 8));
  CUDA_OK(cudaDeviceSynchronize());
  CUDA_OK(cudaSetDevice(0));
  BOOST_TEST(here.values()[0] == 8);
  cudaGetLastError();
}

BOOST_AUTO_TEST_SUITE_END()
