// Linear layers, with an activation too, as one call of cuBLASLt's, and what becomes of those that it does not do.
#include <cublas_v2.h>

#include <boost/test/unit_test.hpp>
#include <cmath>

#include "cuda_emulator/emulator.h"
#include "tendril/autograd/grad_mode.h"
#include "tendril/autograd/ops/matmul.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/tensor/creation.h"
#include "tendril/tensor/cuda/runtime.h"
#include "tendril/tensor/error.h"
#include "tendril/tensor/raw.h"
#include "tests/errors.h"

BOOST_AUTO_TEST_SUITE(linear_layers)

using namespace tendril;
using tendril::testing::says;

namespace {

constexpr Device kGPU{DeviceType::cuda, 0};

Tensor numbers(const Dims& sizes, DType dtype = kFloat32) {
  const Tensor x = raw::arange(0, numel_of(sizes), 1, kFloat32).view(sizes);
  return raw::to(raw::cast((x * 0.7).sin(), dtype), kGPU);
}

/// Calls `f` and says which ways its linear layers went.
template <class F>
cuda::LinearPaths paths_of(F f) {
  const cuda::LinearPaths before = cuda::linear_paths();
  f();
  const cuda::LinearPaths after = cuda::linear_paths();
  return {after.fused - before.fused, after.separate - before.separate, after.activated - before.activated};
}

struct Layer {
  Tensor x = numbers({5, 12}), weight = numbers({8, 12}), bias = numbers({8});

  Tensor run() const { return linear(x, weight, bias); }
  /// What the CPU makes of it.
  Tensor expected() const {
    return linear(raw::to(x, kCPU), raw::to(weight, kCPU), bias.defined() ? raw::to(bias, kCPU) : bias);
  }
};

struct Activated {
  Tensor (*together)(const Tensor& x, const Tensor& weight, const Tensor& bias);
  Tensor (*activation)(const Tensor& x);

  Tensor run(const Layer& l) const { return together(l.x, l.weight, l.bias); }
  Tensor expected(const Layer& l) const { return activation(l.expected()); }
};
const Activated kRelu{linear_relu, [](const Tensor&x) { return x.relu(); }},
    kGelu{linear_gelu_tanh, [](const Tensor&x) { return x.gelu_tanh(); }};

void check(const Tensor& got, const Tensor& want, double tolerance = 1e-5) {
  BOOST_TEST(got.dtype() == want.dtype());
  const double worst = (raw::cast(raw::to(got, kCPU), kFloat64) - raw::cast(want, kFloat64)).abs().max().item<double>();
  BOOST_TEST(worst <= tolerance);
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_linear_layer_is_one_call) {
  const Layer layer;
  (void)layer.run();
  const std::uint64_t before = cuda_emulator::counters().enqueued, launches = cuda_emulator::counters().launches;
  Tensor out;
  BOOST_TEST(paths_of([&] { out = layer.run(); }).fused == 1);
  BOOST_TEST(cuda_emulator::counters().enqueued - before == 1u);
  BOOST_TEST(cuda_emulator::counters().launches == launches);
  check(out, layer.expected());
}

BOOST_AUTO_TEST_CASE(half_types_round_the_sum_alone) {
  for (const DType dtype : {kFloat16, kBFloat16}) {
    const Layer layer{numbers({7, 64}, dtype), numbers({24, 64}, dtype), numbers({24}, dtype)};
    Tensor out;
    BOOST_TEST(paths_of([&] { out = layer.run(); }).fused == 1);
    const auto wide = [](const Tensor& x) { return raw::cast(raw::to(x, kCPU), kFloat64); };
    const Tensor sums = linear(wide(layer.x), wide(layer.weight), wide(layer.bias));
    check(out, raw::cast(raw::cast(sums, kFloat32), dtype), 0);
  }
}

BOOST_AUTO_TEST_CASE(operands_may_be_transposed_and_have_gaps_between_their_rows) {
  const Layer transposed{numbers({12, 8}).t(), numbers({12, 16}).t(), numbers({16})};
  const Layer gaps{numbers({6, 24}).narrow(1, 0, 12), numbers({8, 20}).narrow(1, 4, 12), numbers({8})};
  const Layer leading{numbers({2, 3, 4, 12}), numbers({8, 12}), numbers({8})};
  for (const Layer& layer : {transposed, gaps, leading}) {
    Tensor out;
    BOOST_TEST(paths_of([&] { out = layer.run(); }).fused == 1);
    check(out, layer.expected());
  }
}

BOOST_AUTO_TEST_CASE(tf32_is_rounded_to_where_it_is_allowed) {
  const Layer layer{numbers({5, 40}), numbers({8, 40}), numbers({8})};
  const Tensor exact = layer.run();
  cuda::set_matmul_tf32(true);
  const Tensor rounded = layer.run();
  cuda::set_matmul_tf32(false);
  BOOST_TEST(!raw::equal(raw::to(exact, kCPU), raw::to(rounded, kCPU)));
  check(rounded, layer.expected(), 1e-2);
  check(layer.run(), layer.expected());
}

BOOST_AUTO_TEST_CASE(what_it_does_not_do_takes_two_steps) {
  const Layer wide{numbers({5, 12}, kFloat64), numbers({8, 12}, kFloat64), numbers({8}, kFloat64)};  // not supported
  const Layer odd_x{numbers({61}).narrow(0, 1, 60).view({5, 12}), numbers({8, 12}), numbers({8})};   // addresses
  const Layer odd_bias{numbers({5, 12}), numbers({8, 12}), numbers({9}).narrow(0, 1, 8)};
  const Layer apart{numbers({5, 12}), numbers({8, 12}), numbers({8, 2}).select(1, 0)};  // strides
  const Layer repeated{numbers({5, 12}), numbers({8, 12}), numbers({1}).expand({8})};
  const Layer columns{numbers({5, 24}).view({5, 12, 2}).select(2, 0), numbers({8, 12}), numbers({8})};
  const Layer nothing{numbers({5, 0}), numbers({8, 0}), numbers({8})};
  for (const Layer& layer : {wide, odd_x, odd_bias, apart, repeated, columns, nothing}) {
    Tensor out;
    const cuda::LinearPaths paths = paths_of([&] { out = layer.run(); });
    BOOST_TEST(paths.fused == 0);
    BOOST_TEST(paths.separate == 1);
    check(out, layer.expected());
  }
}

BOOST_AUTO_TEST_CASE(a_layer_of_no_rows_without_a_bias_or_of_integers_counts_as_neither) {
  const cuda::LinearPaths paths = paths_of([] {
    BOOST_TEST(linear(numbers({0, 12}), numbers({8, 12}), numbers({8})).sizes() == (Dims{0, 8}));
    (void)linear(numbers({5, 12}), numbers({8, 12}));
    (void)linear(raw::ones({5, 12}, kInt64, kGPU), raw::ones({8, 12}, kInt64, kGPU), raw::ones({8}, kInt64, kGPU));
  });
  BOOST_TEST(paths.fused == 0);
  BOOST_TEST(paths.separate == 0);
}

BOOST_AUTO_TEST_CASE(what_it_refuses_at_the_call_takes_two_steps_or_is_an_error_under_strict) {
  const Layer layer;
  cuda_emulator::fail_next_linear(CUBLAS_STATUS_NOT_SUPPORTED);
  Tensor out;
  BOOST_TEST(paths_of([&] { out = layer.run(); }).separate == 1);
  check(out, layer.expected());
  cuda_emulator::fail_next_linear(CUBLAS_STATUS_EXECUTION_FAILED);
  BOOST_CHECK_EXCEPTION(layer.run(), Error, says("linear: cublasLtMatmul: ", "CUBLAS_STATUS_EXECUTION_FAILED"));
  cuda::set_strict(false);
  cuda_emulator::fail_next_linear(CUBLAS_STATUS_EXECUTION_FAILED);
  BOOST_TEST(paths_of([&] { out = layer.run(); }).separate == 1);
  cuda::set_strict(true);
  check(out, layer.expected());
  BOOST_TEST(paths_of([&] { out = layer.run(); }).fused == 1);
}

BOOST_AUTO_TEST_CASE(an_activation_is_in_that_call) {
  const Layer with, without{with.x, with.weight, {}};
  const Layer leading{numbers({2, 3, 4, 12}), numbers({8, 12}), numbers({8})};
  for (const Activated& op : {kRelu, kGelu}) {
    for (const Layer& layer : {with, without, leading}) {
      (void)op.run(layer);
      const auto before = cuda_emulator::counters();
      Tensor out;
      const cuda::LinearPaths paths = paths_of([&] { out = op.run(layer); });
      BOOST_TEST((paths.activated == 1 && paths.fused == 1 && paths.separate == 0));
      BOOST_TEST(cuda_emulator::counters().enqueued - before.enqueued == 1u);
      BOOST_TEST(cuda_emulator::counters().launches == before.launches);
      check(out, op.expected(layer));
    }
  }
  BOOST_TEST(paths_of([&] { (void)with.run(); }).activated == 0);
}

BOOST_AUTO_TEST_CASE(half_types_round_what_the_activation_gives_alone) {
  for (const DType dtype : {kFloat16, kBFloat16}) {
    const Layer layer{numbers({7, 64}, dtype), numbers({24, 64}, dtype), numbers({24}, dtype)};
    for (const Activated& op : {kRelu, kGelu}) {
      Tensor out;
      BOOST_TEST(paths_of([&] { out = op.run(layer); }).activated == 1);
      const auto wide = [](const Tensor& x) { return raw::cast(raw::to(x, kCPU), kFloat64); };
      const Tensor values = op.activation(linear(wide(layer.x), wide(layer.weight), wide(layer.bias)));
      check(out, raw::cast(raw::cast(values, kFloat32), dtype), 1e-15);  // the device's tanh cancels far below 0
    }
  }
}

BOOST_AUTO_TEST_CASE(an_activation_that_it_does_not_do_is_a_kernel_after_the_layer) {
  const Layer wide{numbers({5, 12}, kFloat64), numbers({8, 12}, kFloat64), numbers({8}, kFloat64)};  // not supported
  const Layer odd{numbers({61}).narrow(0, 1, 60).view({5, 12}), numbers({8, 12}), numbers({8})};     // addresses
  const Layer nothing{numbers({5, 0}), numbers({8, 0}), numbers({8})};
  const Layer served;
  for (const Activated& op : {kRelu, kGelu}) {
    for (const Layer& given : {wide, odd, nothing}) {
      for (const Tensor& bias : {given.bias, Tensor()}) {
        const Layer layer{given.x, given.weight, bias};
        Tensor out;
        const cuda::LinearPaths paths = paths_of([&] { out = op.run(layer); });
        BOOST_TEST((paths.activated == 0 && paths.fused == 0 && paths.separate == 1));
        check(out, op.expected(layer));
      }
    }
    cuda_emulator::fail_next_linear(CUBLAS_STATUS_NOT_SUPPORTED);  // with the activation; the bias alone is served
    Tensor out;
    const cuda::LinearPaths paths = paths_of([&] { out = op.run(served); });
    BOOST_TEST((paths.activated == 0 && paths.fused == 1 && paths.separate == 0));
    check(out, op.expected(served));
    BOOST_TEST(op.run({numbers({0, 12}), served.weight, served.bias}).sizes() == (Dims{0, 8}));
    cuda_emulator::fail_next_linear(CUBLAS_STATUS_EXECUTION_FAILED);
    BOOST_CHECK_EXCEPTION(op.run(served), Error, says("linear: cublasLtMatmul: ", "CUBLAS_STATUS_EXECUTION_FAILED"));
  }
}

BOOST_AUTO_TEST_CASE(an_algorithm_is_for_one_epilogue) {
  const Layer layer{numbers({6, 36}), numbers({8, 36}), numbers({8})};  // a shape that was not asked about yet
  cuda_emulator::fail_next_planning(cuda_emulator::Planning::linear, CUBLAS_STATUS_NOT_SUPPORTED);
  BOOST_TEST(paths_of([&] { (void)kRelu.run(layer); }).activated == 0);
  BOOST_TEST(paths_of([&] { (void)kRelu.run(layer); }).activated == 0);  // the answer is kept
  BOOST_TEST(paths_of([&] { (void)kGelu.run(layer); }).activated == 1);
  BOOST_TEST(paths_of([&] { (void)layer.run(); }).fused == 1);
}

BOOST_AUTO_TEST_CASE(nan_is_sure_to_stay_in_relu_after_linear_alone) {
  const Layer layer{raw::full({4, 12}, NAN, kFloat32, kGPU), numbers({8, 12}), numbers({8})};
  BOOST_TEST(raw::to(layer.run().relu().isnan().all(), kCPU).item<bool>());
  BOOST_TEST(raw::to(kGelu.run(layer).isnan().all(), kCPU).item<bool>());
  BOOST_TEST(raw::to(kRelu.run(layer).eq(0).all(), kCPU).item<bool>());  // so here: max(x, 0) permits it
}

BOOST_AUTO_TEST_CASE(relu_is_in_that_call_while_recording_and_gelu_is_not) {
  const Layer layer;
  const auto differentiate = [](const Activated& op, const Layer& given) {
    const std::vector<Tensor> leaves{given.x.clone().requires_grad_(), given.weight.clone().requires_grad_(),
                                     given.bias.clone().requires_grad_()};
    op.together(leaves[0], leaves[1], leaves[2]).square().sum().backward();
    return leaves;
  };
  const Layer here{raw::to(layer.x, kCPU), raw::to(layer.weight, kCPU), raw::to(layer.bias, kCPU)};
  for (const Activated& op : {kRelu, kGelu}) {
    std::vector<Tensor> leaves;
    BOOST_TEST(paths_of([&] { leaves = differentiate(op, layer); }).activated == (op.together == linear_relu));
    const std::vector<Tensor> expected = differentiate(op, here);
    for (std::size_t i = 0; i < leaves.size(); ++i) check(leaves[i].grad(), expected[i].grad(), 1e-4);
    const Layer parameters{layer.x, leaves[1], leaves[2]};
    const NoGrad none;
    BOOST_TEST(paths_of([&] { (void)op.run(parameters); }).activated == 1);
  }
}

BOOST_AUTO_TEST_CASE(gradients_are_the_same_either_way) {
  const Layer layer;
  const Tensor x = layer.x.clone().requires_grad_(), weight = layer.weight.clone().requires_grad_(),
               bias = layer.bias.clone().requires_grad_();
  linear(x, weight, bias).square().sum().backward();
  const Layer here{raw::to(layer.x, kCPU).requires_grad_(), raw::to(layer.weight, kCPU).requires_grad_(),
                   raw::to(layer.bias, kCPU).requires_grad_()};
  here.run().square().sum().backward();
  check(x.grad(), here.x.grad(), 1e-4);
  check(weight.grad(), here.weight.grad(), 1e-4);
  check(bias.grad(), here.bias.grad(), 1e-4);
}

BOOST_AUTO_TEST_SUITE_END()
