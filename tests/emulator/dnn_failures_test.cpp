// What becomes of a convolution that cuDNN does not do, and of the ones after it.
#include <cublas_v2.h>
#include <cudnn.h>

#include <boost/test/unit_test.hpp>
#include <thread>
#include <utility>
#include <vector>

#include "cuda_emulator/emulator.h"
#include "tendril/autograd/ops/lstm.h"
#include "tendril/autograd/ops/matmul.h"
#include "tendril/tensor/cuda/runtime.h"
#include "tendril/tensor/cuda/runtime/refusals.h"
#include "tendril/tensor/error.h"
#include "tendril/tensor/kernels.h"
#include "tendril/tensor/raw.h"
#include "tests/errors.h"

using namespace tendril;
using tendril::testing::says;

namespace {

constexpr Device kGPU{DeviceType::cuda, 0};

/// The emulated cuDNN has two ways, the faster one with a workspace.
struct Convolution {
  Tensor x = raw::to(raw::arange(0, 2 * 3 * 6 * 5, 1, kFloat32), kGPU).view({2, 3, 6, 5});
  Tensor weight = raw::to(raw::arange(0, 4 * 3 * 3 * 3, 1, kFloat32), kGPU).view({4, 3, 3, 3});
  Tensor out = raw::empty({2, 4, 6, 5}, kFloat32, kGPU);

  void run() const { kernels(kGPU)->conv2d(raw::view_of(out), raw::view_of(x), raw::view_of(weight), {.padding = 1}); }
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
  BOOST_TEST(fastest == CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM);
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
  BOOST_TEST(cuda_emulator::last_convolution_algorithm() == CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM);
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
    BOOST_TEST(cuda_emulator::last_convolution_algorithm() == CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM);
    BOOST_TEST(convolution.result() == expected);
  }
  convolution.run();
  BOOST_TEST(cuda_emulator::last_convolution_algorithm() == CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM);
}

BOOST_AUTO_TEST_CASE(a_refusal_that_may_pass_is_forgotten_and_one_that_will_not_is_kept) {
  using cuda_emulator::Planning;
  const NotStrict lenient;
  const auto by_products = [](const auto& f) {
    const int64_t before = cuda::convolution_paths().products;
    f();
    return cuda::convolution_paths().products - before;
  };
  int64_t width = 7;  // a shape that was not asked about yet
  for (const auto& [status, again] : {std::pair{CUDNN_STATUS_ALLOC_FAILED, 0}, {CUDNN_STATUS_NOT_SUPPORTED, 1}}) {
    const Convolution one{.x = raw::ones({1, 3, 6, width}, kFloat32, kGPU),
                          .out = raw::empty({1, 4, 6, width}, kFloat32, kGPU)};
    ++width;
    cuda_emulator::fail_next_planning(Planning::convolution, status);
    BOOST_TEST(by_products([&] { one.run(); }) == 1);
    const std::vector<double> expected = one.result();
    BOOST_TEST(by_products([&] { one.run(); }) == again);
    BOOST_TEST(one.result() == expected);
  }
  // The size of the fastest one's workspace.
  const Convolution one{.x = raw::ones({1, 3, 6, width}, kFloat32, kGPU),
                        .out = raw::empty({1, 4, 6, width}, kFloat32, kGPU)};
  cuda_emulator::fail_next_planning(Planning::convolution_workspace, CUDNN_STATUS_ALLOC_FAILED);
  one.run();
  BOOST_TEST(cuda_emulator::last_convolution_algorithm() == CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM);
  one.run();
  BOOST_TEST(cuda_emulator::last_convolution_algorithm() == CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM);
}

BOOST_AUTO_TEST_CASE(so_are_those_of_recurrent_and_linear_layers) {
  using cuda_emulator::Planning;
  const NotStrict lenient;
  const auto ones = [](const Dims& sizes) { return raw::ones(sizes, kFloat32, kGPU); };
  int64_t width = 24;  // shapes that were not asked about yet
  for (const bool passes : {true, false}) {
    const Tensor x = ones({3, 2, width});
    const LstmWeights weights{ones({16, width}), ones({16, 4}), {}, {}};
    const auto by_cudnn = [&] {
      const int64_t before = cuda::lstm_layers_by_cudnn();
      (void)lstm_layer(x, weights, {}, {});
      return cuda::lstm_layers_by_cudnn() - before;
    };
    cuda_emulator::fail_next_planning(Planning::lstm, passes ? CUDNN_STATUS_ALLOC_FAILED : CUDNN_STATUS_NOT_SUPPORTED);
    BOOST_TEST(by_cudnn() == 0);
    BOOST_TEST(by_cudnn() == passes);
    const auto fused = [&] {
      const int64_t before = cuda::linear_paths().fused;
      (void)linear(ones({5, width}), ones({8, width}), ones({8}));
      return cuda::linear_paths().fused - before;
    };
    cuda_emulator::fail_next_planning(Planning::linear,
                                      passes ? CUBLAS_STATUS_ALLOC_FAILED : CUBLAS_STATUS_NOT_SUPPORTED);
    BOOST_TEST(fused() == 0);
    BOOST_TEST(fused() == passes);
    width += 8;
  }
}

BOOST_AUTO_TEST_CASE(words_of_cudnn_frontend_tell_failures_from_what_is_not_supported) {
  BOOST_TEST(cuda::names_no_failure("Deselecting execution plan"));
  BOOST_TEST(cuda::names_no_failure("no plan. cudnn_status: CUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH"));
  BOOST_TEST(!cuda::names_no_failure("cudnn_status: CUDNN_STATUS_NOT_SUPPORTED, CUDNN_STATUS_ALLOC_FAILED"));
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
