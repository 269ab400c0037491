// Operations on tensors that are not all on one device. (Pointwise operations: mixed_devices_test.cpp.)
#include <boost/test/unit_test.hpp>
#include <functional>
#include <string>
#include <vector>

#include "tendril/autograd/ops/activation.h"
#include "tendril/autograd/ops/attention.h"
#include "tendril/autograd/ops/conv.h"
#include "tendril/autograd/ops/embedding.h"
#include "tendril/autograd/ops/join.h"
#include "tendril/autograd/ops/layer_norm.h"
#include "tendril/autograd/ops/loss.h"
#include "tendril/autograd/ops/loss_pairs.h"
#include "tendril/autograd/ops/lstm.h"
#include "tendril/autograd/ops/matmul.h"
#include "tendril/autograd/ops/norm.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/nn/distributions/categorical.h"
#include "tendril/nn/optim/adam.h"
#include "tendril/nn/optim/sgd.h"
#include "tendril/tensor/creation.h"
#include "tendril/tensor/cuda/runtime/current.h"
#include "tendril/tensor/drivers/by_index.h"
#include "tendril/tensor/raw.h"
#include "tests/errors.h"

using namespace tendril;

namespace {

Tensor floats(const Dims& sizes, Device device) { return raw::ones(sizes, kFloat32, device); }
Tensor indices(const Dims& sizes, Device device) { return raw::zeros(sizes, kInt64, device); }

struct Case {
  std::string op;        ///< as the message begins
  std::string argument;  ///< which is on the other device
  std::function<void(Device, Device)> call;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"mm: ", "other",
       [](Device a, Device b) {
         floats({2, 3}, a).mm(floats({3, 2}, b));
       }},
      {"bmm: ", "other",
       [](Device a, Device b) {
         floats({1, 2, 3}, a).bmm(floats({1, 3, 2}, b));
       }},
      {"dot: ", "other", [](Device a, Device b) { floats({3}, a).dot(floats({3}, b)); }},
      {"matmul: ", "other",
       [](Device a, Device b) {
         floats({4, 2, 3}, a).matmul(floats({3, 2}, b));
       }},
      {"matmul: ", "b",
       [](Device a, Device b) {
         raw::matmul(floats({2, 3}, a), floats({3, 2}, b));
       }},
      {"linear: ", "the weight",
       [](Device a, Device b) {
         linear(floats({2, 3}, a), floats({4, 3}, b), {});
       }},
      {"linear: ", "the bias",
       [](Device a, Device b) {
         linear(floats({2, 3}, a), floats({4, 3}, a), floats({4}, b));
       }},
      {"cat: ", "tensor 1",
       [](Device a, Device b) {
         cat({floats({2}, a), floats({2}, b)}, 0);
       }},
      {"stack: ", "tensor 1",
       [](Device a, Device b) {
         stack({floats({2}, a), floats({2}, b)}, 0);
       }},
      {"gather: ", "the index",
       [](Device a, Device b) {
         floats({2, 3}, a).gather(1, indices({2, 1}, b));
       }},
      {"gather: ", "the index",
       [](Device a, Device b) {
         floats({2, 3}, a).gather(1, indices({2, 1}, b));
       }},
      {"index_select: ", "the index",
       [](Device a, Device b) {
         floats({2, 3}, a).index_select(0, indices({1}, b));
       }},
      {"index_select: ", "the index",
       [](Device a, Device b) {
         floats({2, 3}, a).index_select(0, indices({1}, b));
       }},
      {"scatter_add: ", "the index",
       [](Device a, Device b) {
         floats({2, 3}, a).scatter_add(1, indices({2, 1}, b), floats({2, 1}, a));
       }},
      {"scatter_add: ", "the source",
       [](Device a, Device b) {
         floats({2, 3}, a).scatter_add(1, indices({2, 1}, a), floats({2, 1}, b));
       }},
      {"index_add: ", "the index",
       [](Device a, Device b) {
         floats({2, 3}, a).index_add(0, indices({1}, b), floats({1, 3}, a));
       }},
      {"index_add: ", "the source",
       [](Device a, Device b) {
         floats({2, 3}, a).index_add(0, indices({1}, a), floats({1, 3}, b));
       }},
      {"embedding: ", "the index",
       [](Device a, Device b) {
         embedding(indices({2}, b), floats({3, 2}, a), {});
       }},
      {"conv2d: ", "weight",
       [](Device a, Device b) {
         conv2d(floats({1, 1, 3, 3}, a), floats({1, 1, 2, 2}, b));
       }},
      {"conv2d: ", "bias",
       [](Device a, Device b) {
         conv2d(floats({1, 1, 3, 3}, a), floats({1, 1, 2, 2}, a), floats({1}, b));
       }},
      {"batch_norm: ", "running_mean",
       [](Device a, Device b) {
         batch_norm(floats({4, 2}, a), floats({2}, b), floats({2}, a), {}, {});
       }},
      {"batch_norm: ", "weight",
       [](Device a, Device b) {
         batch_norm(floats({4, 2}, a), {}, {}, floats({2}, b), {}, true);
       }},
      {"lstm_layer: ", "weight_hh",
       [](Device a, Device b) {
         lstm_layer(floats({2, 1, 8}, a), floats({8, 2}, b), {}, {}, false);
       }},
      {"lstm_layer: ", "h0",
       [](Device a, Device b) {
         lstm_layer(floats({2, 1, 8}, a), floats({8, 2}, a), floats({1, 2}, b), {}, false);
       }},
      {"scaled_dot_product_attention: ", "key",
       [](Device a, Device b) {
         scaled_dot_product_attention(floats({2, 3}, a), floats({4, 3}, b), floats({4, 3}, a));
       }},
      {"scaled_dot_product_attention: ", "value",
       [](Device a, Device b) {
         scaled_dot_product_attention(floats({2, 3}, a), floats({4, 3}, a), floats({4, 3}, b));
       }},
      {"scaled_dot_product_attention: ", "key",
       [](Device a, Device b) {
         scaled_dot_product_attention(floats({2, 3}, a), floats({4, 3}, b), floats({4, 3}, b));
       }},
      {"scaled_dot_product_attention: ", "attn_mask",
       [](Device a, Device b) {
         scaled_dot_product_attention(floats({2, 3}, a), floats({4, 3}, a), floats({4, 3}, a),
                                      {.attn_mask = floats({2, 4}, b)});
       }},
      {"scatter: ", "the index",
       [](Device a, Device b) {
         floats({2, 3}, a).scatter(1, indices({2, 1}, b), floats({2, 1}, a));
       }},
      {"scatter: ", "the source",
       [](Device a, Device b) {
         floats({2, 3}, a).scatter(1, indices({2, 1}, a), floats({2, 1}, b));
       }},
      {"scatter: ", "the index",
       [](Device a, Device b) {
         floats({2, 3}, a).scatter(1, indices({2, 1}, b), 5);
       }},
      {"index_copy: ", "the index",
       [](Device a, Device b) {
         floats({2, 3}, a).index_copy(0, indices({1}, b), floats({1, 3}, a));
       }},
      {"index_copy: ", "the source",
       [](Device a, Device b) {
         floats({2, 3}, a).index_copy(0, indices({1}, a), floats({1, 3}, b));
       }},
      {"addmm: ", "c is",
       [](Device a, Device b) {
         addmm(floats({2, 2}, b), floats({2, 3}, a), floats({3, 2}, a));
       }},
      {"addmm: ", "b is",
       [](Device a, Device b) {
         addmm(floats({2, 2}, a), floats({2, 3}, a), floats({3, 2}, b));
       }},
      {"baddbmm: ", "c is",
       [](Device a, Device b) {
         baddbmm(floats({1, 2, 2}, b), floats({1, 2, 3}, a), floats({1, 3, 2}, a));
       }},
      {"prelu: ", "weight",
       [](Device a, Device b) {
         prelu(floats({2, 3}, a), floats({3}, b));
       }},
      {"layer_norm: ", "weight",
       [](Device a, Device b) {
         layer_norm(floats({2, 3}, a), {3}, floats({3}, b), floats({3}, a));
       }},
      {"layer_norm: ", "bias",
       [](Device a, Device b) {
         layer_norm(floats({2, 3}, a), {3}, floats({3}, a), floats({3}, b));
       }},
      {"rms_norm: ", "weight",
       [](Device a, Device b) {
         rms_norm(floats({2, 3}, a), {3}, floats({3}, b));
       }},
      {"group_norm: ", "weight",
       [](Device a, Device b) {
         group_norm(floats({2, 4}, a), 2, floats({4}, b), floats({4}, a));
       }},
      {"conv_transpose2d: ", "weight",
       [](Device a, Device b) {
         conv_transpose2d(floats({1, 1, 3, 3}, a), floats({1, 1, 2, 2}, b));
       }},
      {"conv_transpose2d: ", "bias",
       [](Device a, Device b) {
         conv_transpose2d(floats({1, 1, 3, 3}, a), floats({1, 1, 2, 2}, a), floats({1}, b));
       }},
      {"conv1d: ", "weight",
       [](Device a, Device b) {
         conv1d(floats({1, 1, 3}, a), floats({1, 1, 2}, b));
       }},
      {"conv_transpose1d: ", "weight",
       [](Device a, Device b) {
         conv_transpose1d(floats({1, 1, 3}, a), floats({1, 1, 2}, b));
       }},
      {"binary_cross_entropy: ", "the target",
       [](Device a, Device b) { binary_cross_entropy(floats({2}, a), floats({2}, b)); }},
      {"binary_cross_entropy: ", "weight",
       [](Device a, Device b) { binary_cross_entropy(floats({2}, a), floats({2}, a), {.weight = floats({2}, b)}); }},
      {"binary_cross_entropy_with_logits: ", "the target",
       [](Device a, Device b) { binary_cross_entropy_with_logits(floats({2}, a), floats({2}, b)); }},
      {"binary_cross_entropy_with_logits: ", "pos_weight",
       [](Device a, Device b) {
         binary_cross_entropy_with_logits(floats({2}, a), floats({2}, a), {.pos_weight = floats({2}, b)});
       }},
      {"kl_div: ", "the target", [](Device a, Device b) { kl_div(floats({2}, a), floats({2}, b)); }},
      {"l1_loss: ", "the target", [](Device a, Device b) { l1_loss(floats({2}, a), floats({2}, b)); }},
      {"cosine_similarity: ", "y",
       [](Device a, Device b) {
         cosine_similarity(floats({2, 3}, a), floats({2, 3}, b));
       }},
      {"cosine_embedding_loss: ", "x2",
       [](Device a, Device b) {
         cosine_embedding_loss(floats({2, 3}, a), floats({2, 3}, b), floats({2}, a));
       }},
      {"cosine_embedding_loss: ", "the target",
       [](Device a, Device b) {
         cosine_embedding_loss(floats({2, 3}, a), floats({2, 3}, a), floats({2}, b));
       }},
      {"triplet_margin_loss: ", "negative",
       [](Device a, Device b) {
         triplet_margin_loss(floats({2, 3}, a), floats({2, 3}, a), floats({2, 3}, b));
       }},
      {"lstm_layer: ", "c0",
       [](Device a, Device b) {
         lstm_layer(floats({2, 1, 8}, a), floats({8, 2}, a), {}, floats({1, 2}, b), false);
       }},
      {"lstm_layer: ", "weight_ih",
       [](Device a, Device b) {
         lstm_layer(floats({2, 1, 3}, a),
                    LstmWeights{floats({8, 3}, b), floats({8, 2}, a), floats({8}, a), floats({8}, a)},
                    floats({1, 2}, a), floats({1, 2}, a));
       }},
      {"lstm_layer: ", "weight_hh",
       [](Device a, Device b) {
         lstm_layer(floats({2, 1, 3}, a),
                    LstmWeights{floats({8, 3}, a), floats({8, 2}, b), floats({8}, a), floats({8}, a)},
                    floats({1, 2}, a), floats({1, 2}, a));
       }},
      {"lstm_layer: ", "bias_ih",
       [](Device a, Device b) {
         lstm_layer(floats({2, 1, 3}, a),
                    LstmWeights{floats({8, 3}, a), floats({8, 2}, a), floats({8}, b), floats({8}, a)},
                    floats({1, 2}, a), floats({1, 2}, a));
       }},
      {"lstm_layer: ", "bias_hh",
       [](Device a, Device b) {
         lstm_layer(floats({2, 1, 3}, a),
                    LstmWeights{floats({8, 3}, a), floats({8, 2}, a), floats({8}, a), floats({8}, b)},
                    floats({1, 2}, a), floats({1, 2}, a));
       }},
      {"lstm_layer: ", "h0",
       [](Device a, Device b) {
         lstm_layer(floats({2, 1, 3}, a),
                    LstmWeights{floats({8, 3}, a), floats({8, 2}, a), floats({8}, a), floats({8}, a)},
                    floats({1, 2}, b), floats({1, 2}, a));
       }},
      {"lstm_layer: ", "c0",
       [](Device a, Device b) {
         lstm_layer(floats({2, 1, 3}, a),
                    LstmWeights{floats({8, 3}, a), floats({8, 2}, a), floats({8}, a), floats({8}, a)},
                    floats({1, 2}, a), floats({1, 2}, b));
       }},
      {"lstm_layer: ", "bias_ih",
       [](Device a, Device b) {
         lstm_layer(floats({2, 1, 3}, a),
                    LstmWeights{floats({8, 3}, a), floats({8, 2}, a), floats({8}, b), floats({8}, b)},
                    floats({1, 2}, a), floats({1, 2}, a));
       }},
      {"nll_loss: ", "the target",
       [](Device a, Device b) {
         nll_loss(floats({2, 3}, a), indices({2}, b));
       }},
      {"cross_entropy: ", "the target",
       [](Device a, Device b) {
         cross_entropy(floats({2, 3}, a), indices({2}, b));
       }},
      {"cross_entropy: ", "the weight",
       [](Device a, Device b) {
         cross_entropy(floats({2, 3}, a), indices({2}, a), {.weight = floats({3}, b)});
       }},
      {"mse_loss: ", "y", [](Device a, Device b) { mse_loss(floats({2}, a), floats({2}, b)); }},
      {"Categorical::log_prob: ", "value",
       [](Device a, Device b) {
         distributions::Categorical({.probs = floats({2, 3}, a)}).log_prob(indices({2}, b));
       }},
      {"backward: ", "the gradient",
       [](Device a, Device b) { floats({2}, a).requires_grad_().mul(2).backward(floats({2}, b)); }},
      {"assigned grad ", "different device",
       [](Device a, Device b) { floats({2}, a).requires_grad_().set_grad(floats({2}, b)); }},
      {"SGD::step: ", "gradient 0",
       [](Device a, Device b) { optim::SGD({floats({2}, a).requires_grad_()}).step({floats({2}, b)}); }},
      {"Adam::step: ", "gradient 0",
       [](Device a, Device b) { optim::Adam({floats({2}, a).requires_grad_()}).step({floats({2}, b)}); }},
  };
  return all;
}

std::string name_of(Device device) {
  std::ostringstream out;
  out << device;
  return out.str();
}

}  // namespace

BOOST_AUTO_TEST_SUITE(two_devices)

BOOST_AUTO_TEST_CASE(operands_on_two_devices_are_refused_by_operation_argument_and_device) {
  const Device first{DeviceType::cuda, 0}, second{DeviceType::cuda, 1};
  std::vector<std::pair<Device, Device>> pairs = {{first, kCPU}, {kCPU, first}};
  if (device_count(DeviceType::cuda) > 1) pairs.insert(pairs.end(), {{first, second}, {second, first}});
  for (const auto& [a, b] : pairs) {
    for (const Case& one : cases()) {
      BOOST_TEST_CONTEXT(one.op << one.argument << ", " << a << " and " << b) {
        BOOST_CHECK_EXCEPTION(one.call(a, b), Error, testing::says(one.op, one.argument, ::name_of(a), ::name_of(b)));
      }
    }
  }
}

boost::test_tools::assertion_result two_devices(boost::unit_test::test_unit_id) {
  return device_count(DeviceType::cuda) > 1;
}

BOOST_AUTO_TEST_CASE(operations_leave_the_current_device_unchanged, *boost::unit_test::precondition(two_devices)) {
  for (int8_t current = 0; current < 2; ++current) {
    const Device other{DeviceType::cuda, static_cast<int8_t>(1 - current)};
    BOOST_TEST_REQUIRE(cudaSetDevice(current) == cudaSuccess);
    const auto unchanged = [&](const char* what) {
      int now = -1;
      BOOST_TEST(cudaGetDevice(&now) == cudaSuccess);
      BOOST_TEST(now == current, what << " left cuda:" << now << " current, expected cuda:" << int{current});
    };
    Tensor x = floats({2, 3}, other).requires_grad_();
    unchanged("ones");
    const Tensor loss = (x.mm(floats({3, 2}, other)) + 1).softmax(-1).sum();
    unchanged("operations");
    loss.backward();
    unchanged("backward");
    optim::Adam({x}).step();
    unchanged("a step");
    raw::to(raw::to(x.detach(), {DeviceType::cuda, current}), other);
    unchanged("a copy");
    loss.item<float>();
    unchanged("item");
    BOOST_CHECK_THROW(kernels(other)->uniform(raw::view_of(raw::empty({2}, kBool, other)), 0, 2, 1, 0), DTypeError);
    BOOST_CHECK_THROW(raw::empty({int64_t{1} << 50}, kFloat32, other), Error);
    unchanged("an error");
  }
  cudaSetDevice(0);
}

BOOST_AUTO_TEST_CASE(what_is_refused_changes_nothing) {
  const Device there{DeviceType::cuda, 0};
  Tensor param = floats({2}, there).requires_grad_();
  optim::SGD sgd({param});
  BOOST_CHECK_THROW(sgd.step({floats({2}, kCPU)}), Error);
  BOOST_CHECK_THROW(param.set_grad(floats({2}, kCPU)), Error);
  const Tensor sum = floats({2}, there);
  BOOST_CHECK_THROW(drivers::index_add_(sum, 0, indices({1}, kCPU), floats({1}, there)), Error);
  const Tensor mean = floats({2}, there), var = floats({2}, kCPU);
  const uint32_t version = mean.version();
  BOOST_CHECK_THROW(batch_norm(floats({4, 2}, there), mean, var, {}, {}, true), Error);
  BOOST_TEST(mean.version() == version);
  BOOST_TEST(!param.grad().defined());
  for (const Tensor& unchanged : {param, sum, mean}) {
    BOOST_TEST(unchanged.to_vector<float>() == std::vector<float>(2, 1));
  }
}

BOOST_AUTO_TEST_SUITE_END()
