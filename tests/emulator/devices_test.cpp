#include <cstdio>

#include "emulated.h"

using namespace tendril::test;

namespace {

/// What a program of programs/ prints with these variables in its environment.
std::string output_of(const std::string& environment, const std::string& program) {
  const std::string command = "env -u CUDA_VISIBLE_DEVICES " + environment + " " TENDRIL_TEST_PROGRAMS "/" + program;
  std::FILE* const output = ::popen(command.c_str(), "r");
  BOOST_TEST_REQUIRE(output != nullptr);
  std::string text;
  for (int c = 0; (c = std::fgetc(output)) != EOF;) text.push_back(static_cast<char>(c));
  BOOST_TEST(::pclose(output) == 0);
  return text;
}

std::string devices_with(const std::string& environment) { return output_of(environment, "devices"); }

bool begins(const std::string& text, const std::string& with) { return text.rfind(with, 0) == 0; }

}  // namespace

BOOST_AUTO_TEST_SUITE(devices)

BOOST_AUTO_TEST_CASE(the_environment_says_how_many_devices_there_are_and_how_large) {
  BOOST_TEST(begins(devices_with(""), "cudaSuccess 2 cudaSuccess cudaSuccess order"));
  BOOST_TEST(begins(devices_with("TENDRIL_EMULATED_DEVICES=3"), "cudaSuccess 3 "));
  BOOST_TEST(begins(devices_with("CUDA_VISIBLE_DEVICES=1"), "cudaSuccess 1 "));
  BOOST_TEST(devices_with("TENDRIL_EMULATED_MEMORY=1000000") ==
             "cudaSuccess 2 cudaErrorMemoryAllocation cudaErrorMemoryAllocation");
}

BOOST_AUTO_TEST_CASE(without_devices_every_call_says_so) {
  BOOST_TEST(devices_with("CUDA_VISIBLE_DEVICES=") == "cudaErrorNoDevice 0 cudaErrorNoDevice");
  BOOST_TEST(devices_with("CUDA_VISIBLE_DEVICES=-1") == "cudaErrorNoDevice 0 cudaErrorNoDevice");
}

BOOST_AUTO_TEST_CASE(a_library_says_why_it_has_no_device) {
  BOOST_TEST(output_of("", "why") == "2 ");
  BOOST_TEST(output_of("TENDRIL_EMULATED_DRIVER=0", "why") == "0 no NVIDIA driver is loaded");
  const std::string runtime = std::to_string(CUDART_VERSION / 1000) + "." + std::to_string(CUDART_VERSION % 1000 / 10);
  BOOST_TEST(output_of("TENDRIL_EMULATED_DRIVER=11040", "why") ==
             "0 the driver (CUDA 11.4) is older than the CUDA runtime " + runtime +
                 " that this library was built with");
  BOOST_TEST(output_of("TENDRIL_EMULATED_DRIVER=99000", "why") == "2 ");
  BOOST_TEST(output_of("CUDA_VISIBLE_DEVICES=", "why") ==
             "0 the driver sees no CUDA device (is CUDA_VISIBLE_DEVICES set?)");
  BOOST_TEST(devices_with("TENDRIL_EMULATED_DRIVER=0") == "cudaErrorInsufficientDriver 0 cudaErrorInsufficientDriver");
}

BOOST_AUTO_TEST_CASE(a_device_that_nobody_chose_gets_no_context) {
  BOOST_TEST(output_of("", "contexts asks") == "00");
  for (const std::string what : {"computes", "streams", "releases", "pins", "waits"}) {
    BOOST_TEST(output_of("", "contexts " + what) == "01", "a program that " << what);
  }
}

BOOST_AUTO_TEST_CASE(a_seed_is_an_order_of_the_threads) {
  BOOST_TEST(devices_with("TENDRIL_EMULATED_SEED=5") == devices_with("TENDRIL_EMULATED_SEED=5"));
  BOOST_TEST(devices_with("TENDRIL_EMULATED_SEED=5") != devices_with("TENDRIL_EMULATED_SEED=6"));
}

BOOST_AUTO_TEST_CASE(devices_tell_their_limits) {
  cudaDeviceProp properties;
  CUDA_OK(cudaGetDeviceProperties(&properties, 1));
  BOOST_TEST(std::string(properties.name) == "emulated");
  BOOST_TEST(properties.warpSize == 32);
  int value = 0;
  CUDA_OK(cudaDeviceGetAttribute(&value, cudaDevAttrMaxThreadsPerBlock, 0));
  BOOST_TEST(value == properties.maxThreadsPerBlock);
  BOOST_TEST(cudaGetDeviceProperties(&properties, 2) == cudaErrorInvalidDevice);
  BOOST_TEST(cudaSetDevice(2) == cudaErrorInvalidDevice);
  BOOST_TEST(cudaSetDevice(-1) == cudaErrorInvalidDevice);
  cudaGetLastError();
}

BOOST_AUTO_TEST_CASE(the_last_error_stays_until_it_is_asked_for) {
  cudaGetLastError();
  CUDA_OK(cudaPeekAtLastError());
  BOOST_TEST(cudaSetDevice(77) == cudaErrorInvalidDevice);
  CUDA_OK(cudaSetDevice(0));
  BOOST_TEST(cudaPeekAtLastError() == cudaErrorInvalidDevice);
  BOOST_TEST(cudaGetLastError() == cudaErrorInvalidDevice);
  CUDA_OK(cudaGetLastError());
  BOOST_TEST(std::string(cudaGetErrorName(cudaErrorInvalidDevice)) == "cudaErrorInvalidDevice");
  BOOST_TEST(std::string(cudaGetErrorString(cudaErrorMemoryAllocation)) == "out of memory");
}

BOOST_AUTO_TEST_SUITE_END()
