// What goes to cuDNN as graphs: attention of half types, and convolutions with what follows them.
#include <boost/test/unit_test.hpp>

#include "cuda_emulator/emulator.h"
#include "tendril/autograd/backward.h"
#include "tendril/autograd/grad_mode.h"
#include "tendril/autograd/ops/attention.h"
#include "tendril/autograd/ops/conv.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/tensor/creation.h"
#include "tendril/tensor/cuda/runtime.h"
#include "tendril/tensor/raw.h"

BOOST_AUTO_TEST_SUITE(graphs)

using namespace tendril;

namespace {

constexpr Device kGPU{DeviceType::cuda, 0};

Tensor numbers(const Dims& sizes, DType dtype = kFloat32) {
  const Tensor x = raw::arange(0, numel_of(sizes), 1, kFloat32).view(sizes);
  return raw::to(raw::cast((x * 0.7).sin(), dtype), kGPU);
}
Tensor here(const Tensor& x) { return raw::to(x, kCPU); }
double worst(const Tensor& got, const Tensor& want) {
  return (raw::cast(here(got), kFloat64) - raw::cast(here(want), kFloat64)).abs().max().item<double>();
}

/// The convolutions that `f` makes, by way.
template <class F>
cuda::ConvolutionPaths paths_of(F f) {
  const cuda::ConvolutionPaths before = cuda::convolution_paths();
  f();
  const cuda::ConvolutionPaths after = cuda::convolution_paths();
  return {after.cudnn - before.cudnn, after.products - before.products, after.graphs - before.graphs};
}

struct Convolution {
  Tensor x = numbers({2, 3, 6, 5}), weight = numbers({4, 3, 3, 3}), bias = numbers({4});

  Tensor run() const { return conv2d_relu(x, weight, bias, {.padding = 1}); }
  /// But for TF32.
  Tensor expected() const { return conv2d_relu(here(x), here(weight), here(bias), {.padding = 1}); }
};

}  // namespace

BOOST_AUTO_TEST_CASE(attention_of_half_types_is_one_call_each_way) {
  const Tensor q = numbers({2, 2, 9, 16}, kBFloat16).requires_grad_(), k = numbers({2, 2, 7, 16}, kBFloat16),
               v = numbers({2, 2, 7, 8}, kBFloat16);
  const int64_t done = cuda::attentions_by_cudnn();
  const std::uint64_t before = cuda_emulator::counters().enqueued, launches = cuda_emulator::counters().launches;
  const Tensor out = scaled_dot_product_attention(q, k, v);
  BOOST_TEST(cuda::attentions_by_cudnn() - done == 1);
  BOOST_TEST(cuda_emulator::counters().enqueued - before == 1u);
  const Tensor g = numbers(out.sizes(), kBFloat16);
  out.backward(g);
  BOOST_TEST(cuda_emulator::counters().enqueued - before == 2u);
  BOOST_TEST(cuda_emulator::counters().launches - launches <= 1u);  // (what made g)
}

BOOST_AUTO_TEST_CASE(a_graph_of_gradients_is_made_of_other_operations) {
  const Tensor q = numbers({2, 5, 8}, kFloat16).requires_grad_(), k = numbers({2, 5, 8}, kFloat16),
               v = numbers({2, 5, 8}, kFloat16);
  const Tensor out = scaled_dot_product_attention(q, k, v);
  const Tensor once = autograd::grad({out}, {q}, {numbers(out.sizes(), kFloat16)}, {.create_graph = true})[0];
  BOOST_TEST(once.requires_grad());
  const Tensor q2 = q.detach().requires_grad_();
  scaled_dot_product_attention(q2, k, v).backward(numbers(out.sizes(), kFloat16));
  BOOST_TEST(worst(once, q2.grad()) < 0.01);
}

BOOST_AUTO_TEST_CASE(when_cudnn_is_turned_off_between_the_passes_the_second_is_made_of_other_operations) {
  const Tensor q = numbers({2, 5, 8}, kFloat16).requires_grad_(), k = numbers({2, 5, 8}, kFloat16);
  const Tensor g = numbers({2, 5, 8}, kFloat16);
  scaled_dot_product_attention(q, k, k).backward(g);
  const Tensor q2 = q.detach().requires_grad_();
  const Tensor out = scaled_dot_product_attention(q2, k, k);
  cuda::set_cudnn(false);
  out.backward(g);
  cuda::set_cudnn(true);
  BOOST_TEST(worst(q2.grad(), q.grad()) < 0.01);
}

BOOST_AUTO_TEST_CASE(a_convolution_takes_its_bias_and_its_relu_along) {
  const Convolution convolution;
  Tensor out;
  const cuda::ConvolutionPaths paths = paths_of([&] { out = convolution.run(); });
  BOOST_TEST(paths.graphs == 1);
  BOOST_TEST(paths.cudnn == 1);
  BOOST_TEST(worst(out, convolution.expected()) < 0.01);
}

BOOST_AUTO_TEST_CASE(channels_last_is_left_as_it_is) {
  Convolution convolution;
  convolution.x = raw::contiguous(convolution.x, MemoryFormat::channels_last);
  Tensor out;
  BOOST_TEST(paths_of([&] { out = convolution.run(); }).graphs == 1);
  BOOST_TEST(out.is_contiguous(MemoryFormat::channels_last));
  BOOST_TEST(worst(out, convolution.expected()) < 0.01);
}

BOOST_AUTO_TEST_CASE(what_has_no_graph_takes_its_steps_one_by_one) {
  const Convolution wide{numbers({2, 3, 6, 5}, kFloat64), numbers({4, 3, 3, 3}, kFloat64), numbers({4}, kFloat64)};
  Tensor out;
  cuda::ConvolutionPaths paths = paths_of([&] { out = wide.run(); });
  BOOST_TEST(paths.graphs == 0);
  BOOST_TEST(paths.cudnn == 1);
  BOOST_TEST(worst(out, wide.expected()) < 1e-12);
  cuda::set_cudnn(false);
  const Convolution convolution;
  paths = paths_of([&] { out = convolution.run(); });
  cuda::set_cudnn(true);
  BOOST_TEST(paths.products == 1);
  BOOST_TEST(worst(out, convolution.expected()) < 0.01);
}

BOOST_AUTO_TEST_CASE(plans_are_timed_where_that_is_asked_for) {
  const Convolution convolution;
  const auto plain = [&] { return conv2d(convolution.x, convolution.weight); };
  BOOST_TEST(paths_of([&] { (void)plain(); }).graphs == 0);
  cuda::set_time_plans(true);
  BOOST_TEST(paths_of([&] { (void)plain(); }).graphs == 1);
  cuda::set_time_plans(false);
  BOOST_TEST(paths_of([&] { (void)plain(); }).graphs == 0);
}

BOOST_AUTO_TEST_SUITE_END()
