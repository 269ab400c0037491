// What a layer of attention asks of a device in half types: that heads are split and joined without copies.
#include <boost/test/unit_test.hpp>
#include <functional>

#include "cuda_emulator/emulator.h"
#include "tendril/autograd/autocast.h"
#include "tendril/autograd/backward.h"
#include "tendril/autograd/detail/self_attention.h"
#include "tendril/autograd/ops/attention.h"
#include "tendril/autograd/ops/matmul.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/nn/attention.h"
#include "tendril/tensor/cuda/math_mode.h"
#include "tendril/tensor/cuda/runtime.h"
#include "tendril/tensor/raw.h"

using namespace tendril;
using autograd::grad;

namespace {

constexpr Device kThere{DeviceType::cuda, 0};

/// Kernels of ours, fills and copies, but not the calls of libraries: of the second run.
std::uint64_t launches_of(const std::function<void()>& work) {
  const auto ours = [] {
    const cuda_emulator::Counters now = cuda_emulator::counters();
    return now.launches + now.fills + now.copies;
  };
  work();
  cuda::synchronize();
  const std::uint64_t before = ours();
  work();
  const std::uint64_t after = ours();
  cuda::synchronize();
  return after - before;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(attention_launches)

BOOST_AUTO_TEST_CASE(heads_are_split_and_joined_without_copies) {
  const int64_t before = cuda::attentions_by_cudnn();
  const Tensor all = raw::ones({2, 6, 96}, kBFloat16, kThere).requires_grad_(),
               g = raw::ones({2, 6, 32}, kBFloat16, kThere);
  const auto forward = [&] {
    const Tensor heads = detail::self_attention(all.reshape({2, 6, 3, 4, 8}), {.is_causal = true});
    return heads.transpose(1, 2).reshape({2, 6, 32});
  };
  BOOST_TEST(launches_of([&] { (void)forward(); }) == 0U);
  BOOST_TEST(launches_of([&] { (void)grad({forward()}, {all}, {g}); }) == 0U);
  // three tensors from three layers
  const auto heads_of = [](const Tensor& x) { return x.reshape({2, 6, 4, 8}).transpose(1, 2); };
  const Tensor q = raw::ones({2, 6, 32}, kBFloat16, kThere).requires_grad_(), k = raw::clone(q).requires_grad_(),
               v = raw::clone(q).requires_grad_();
  BOOST_TEST(launches_of([&] {
               const Tensor out = scaled_dot_product_attention(heads_of(q), heads_of(k), heads_of(v));
               (void)grad({out.transpose(1, 2).reshape({2, 6, 32})}, {q, k, v}, {g});
             }) == 0U);
  BOOST_TEST(cuda::attentions_by_cudnn() > before);
}

BOOST_AUTO_TEST_CASE(a_layer_in_bfloat16_is_two_linear_layers_and_an_attention) {
  const auto ones = [](const Dims& sizes, DType dtype) { return raw::ones(sizes, dtype, kThere); };
  const Tensor x = ones({2, 6, 32}, kFloat32).requires_grad_(), heads = ones({2, 6, 32}, kBFloat16).requires_grad_(),
               g = ones({2, 6, 32}, kBFloat16), of_all = ones({2, 6, 96}, kBFloat16);
  const nn::MultiheadAttention layer(32, 4, {.batch_first = true, .device = kThere});
  const auto linear_layers = launches_of([&] {
    const autograd::Autocast low(kBFloat16);
    const Tensor all = linear(x, layer.in_proj_weight, layer.in_proj_bias),
                 out = linear(heads, layer.out_proj.weight, layer.out_proj.bias);
    (void)grad({out}, {heads, layer.out_proj.weight, layer.out_proj.bias}, {g});
    (void)grad({all}, {x, layer.in_proj_weight, layer.in_proj_bias}, {of_all});
  });
  const auto whole = launches_of([&] {
    const autograd::Autocast low(kBFloat16);
    const Tensor out = layer(x, x, x, {.is_causal = true, .need_weights = false}).output;
    (void)grad({out}, {x, layer.in_proj_weight, layer.in_proj_bias, layer.out_proj.weight, layer.out_proj.bias}, {g});
  });
  BOOST_TEST(whole == linear_layers);
}

BOOST_AUTO_TEST_SUITE_END()
