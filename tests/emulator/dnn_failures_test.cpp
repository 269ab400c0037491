// What becomes of a convolution that cuDNN does not do, and of the ones after it.
#include <cudnn.h>

#include <boost/test/unit_test.hpp>
#include <thread>
#include <vector>

#include "cuda_emulator/emulator.h"
#include "tendril/tensor/cuda/runtime.h"
#include "tendril/tensor/error.h"
#include "tendril/tensor/kernels.h"
#include "tendril/tensor/raw.h"
#include "tests/errors.h"

using namespace tendril;
using tendril::testing::says;

namespace {

constexpr Device kGPU{DeviceType::cuda, 0};

/// Three by three, so that the emulated cuDNN has three ways: two with a workspace and one without.
struct Convolution {
  Tensor x = raw::to(raw::arange(0, 2 * 3 * 6 * 5, 1, kFloat32), kGPU).view({2, 3, 6, 5});
  Tensor weight = raw::to(raw::arange(0, 4 * 3 * 3 * 3, 1, kFloat32), kGPU).view({4, 3, 3, 3});
  Tensor out = raw::empty({2, 4, 6, 5}, kFloat32, kGPU);

  void run() const { kernels(kGPU).conv2d(raw::view_of(out), raw::view_of(x), raw::view_of(weight), {.padding = 1}); }
  std::vector<double> result() const { return out.to_vector<double>(); }
};

/// While it lives, the first device has no memory, neither of the driver's nor among what is cached.
struct NoMemory {
  NoMemory() {
    cuda_emulator::refuse_memory(true);
    for (int64_t bytes = int64_t{1} << 28; bytes >= 512; bytes /= 2) {
      try {
        for (;;) taken.push_back(raw::empty({bytes}, kUInt8, kGPU));
      } catch (const Error&) {
      }
    }
  }
  ~NoMemory() { cuda_emulator::refuse_memory(false); }
  std::vector<Tensor> taken;
};

struct NotStrict {
  NotStrict() { cuda::set_strict(false); }
  ~NotStrict() { cuda::set_strict(true); }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(dnn_failures)

BOOST_AUTO_TEST_CASE(an_algorithm_without_room_for_its_workspace_is_skipped_for_that_call_only) {
  const Convolution convolution;
  convolution.run();
  const std::vector<double> expected = convolution.result();
  const int fastest = cuda_emulator::last_convolution_algorithm();
  BOOST_TEST(fastest == CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD);
  const int64_t by_products = cuda::convolution_paths().products;
  {
    const NoMemory none;
    convolution.run();
    BOOST_TEST(cuda_emulator::last_convolution_algorithm() == CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM);
  }
  BOOST_TEST(convolution.result() == expected);
  convolution.run();
  BOOST_TEST(cuda_emulator::last_convolution_algorithm() == fastest);
  BOOST_TEST(convolution.result() == expected);
  BOOST_TEST(cuda::convolution_paths().products == by_products);
}

BOOST_AUTO_TEST_CASE(what_is_not_supported_is_skipped_in_silence) {
  const Convolution convolution;
  convolution.run();
  const std::vector<double> expected = convolution.result();
  cuda_emulator::fail_next_convolution(CUDNN_STATUS_NOT_SUPPORTED, "not today");
  BOOST_CHECK_NO_THROW(convolution.run());
  BOOST_TEST(cuda_emulator::last_convolution_algorithm() == CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM);
  BOOST_TEST(convolution.result() == expected);
}

BOOST_AUTO_TEST_CASE(any_other_refusal_is_an_error_under_strict_with_what_cudnn_says_of_it) {
  const Convolution convolution;
  cuda_emulator::fail_next_convolution(CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH, "the sizes are a mess");
  BOOST_CHECK_EXCEPTION(convolution.run(), Error,
                        says("conv2d: cudnnConvolution: CUDNN_STATUS_BAD_PARAM", "the sizes are a mess"));
  cuda_emulator::fail_next_convolution(CUDNN_STATUS_EXECUTION_FAILED, "it broke");
  BOOST_CHECK_EXCEPTION(convolution.run(), Error, says("CUDNN_STATUS_EXECUTION_FAILED", "it broke"));
  BOOST_CHECK_NO_THROW(convolution.run());
}

BOOST_AUTO_TEST_CASE(otherwise_it_is_said_once_and_another_way_is_taken) {
  const NotStrict lenient;
  const Convolution convolution;
  convolution.run();
  const std::vector<double> expected = convolution.result();
  for (int i = 0; i < 2; ++i) {
    cuda_emulator::fail_next_convolution(CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH, "the sizes are a mess");
    BOOST_CHECK_NO_THROW(convolution.run());
    BOOST_TEST(cuda_emulator::last_convolution_algorithm() == CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM);
    BOOST_TEST(convolution.result() == expected);
  }
  convolution.run();
  BOOST_TEST(cuda_emulator::last_convolution_algorithm() == CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD);
}

BOOST_AUTO_TEST_CASE(threads_share_the_plans_of_a_device) {
  const Convolution convolution;
  convolution.run();
  const std::vector<double> expected = convolution.result();
  std::vector<std::vector<double>> results(4);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < results.size(); ++t) {
    threads.emplace_back([&results, t] {
      const Convolution mine;
      mine.run();
      results[t] = mine.result();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::vector<double>& result : results) BOOST_TEST(result == expected);
}

BOOST_AUTO_TEST_SUITE_END()
