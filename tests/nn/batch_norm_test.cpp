#include "tendril/nn/batch_norm.h"

#include <boost/test/unit_test.hpp>
#include <string>

#include "tendril/autograd/backward.h"
#include "tendril/autograd/ops/norm.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/nn/conv.h"
#include "tendril/nn/sequential.h"
#include "tendril/nn/utils/fusion.h"
#include "tendril/tensor/raw.h"
#include "tests/errors.h"
#include "tests/make.h"
#include "tests/nn/layer_golden.h"
#include "tests/seed.h"

BOOST_AUTO_TEST_SUITE(batch_norm)

using tendril::DTypeError;
using tendril::Error;
using tendril::ShapeError;
using tendril::Tensor;
using tendril::nn::BatchNorm2d;
using tendril::nn::BatchNormOptions;
using tendril::testing::difference;
using tendril::testing::says;
using tendril::testing::test_seed;
namespace make = tendril::make;
namespace raw = tendril::raw;

BOOST_AUTO_TEST_CASE(training_and_evaluation_equal_pytorchs) {
  const tendril::testing::Golden golden(TENDRIL_TEST_DATA "/batch_norm.txt");
  const std::vector<std::pair<std::string, BatchNormOptions>> cases = {{"plain", {}},
                                                                       {"options", {.eps = 0.1, .momentum = 0.3}},
                                                                       {"cumulative", {.cumulative = true}},
                                                                       {"no_affine", {.affine = false}},
                                                                       {"untracked", {.track_running_stats = false}}};
  for (tendril::DType dtype : {tendril::kFloat64, tendril::kFloat32}) {
    const tendril::testing::Tolerance close(dtype);
    for (auto [name, options] : cases) {
      options.dtype = dtype;
      BatchNorm2d layer(3, options);
      if (options.affine) {
        raw::copy_(layer.weight, golden.get("weight", dtype));
        raw::copy_(layer.bias, golden.get("bias", dtype));
      }
      for (int i = 0; i < 3; ++i) {
        layer.train(i < 2);
        Tensor x = golden.get("x" + std::to_string(i), dtype).requires_grad_();
        std::vector<std::pair<std::string, Tensor>> leaves = {{"x", x}};
        if (options.affine) {
          leaves.emplace_back("weight", layer.weight);
          leaves.emplace_back("bias", layer.bias);
        }
        const std::string step = name + std::to_string(i);
        check_layer(
            golden, step, dtype, [&] { return layer(x); }, leaves);
        for (const auto& [key, buffer] : layer.named_buffers()) {
          BOOST_TEST(difference(buffer, golden.get(step + "." + key), close.rtol, close.atol) == "", step << key);
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(it_has_pytorchs_parameters_and_buffers) {
  BatchNorm2d layer(3);
  std::string names;
  for (const auto& [name, tensor] : layer.named_parameters()) names += name + " ";
  for (const auto& [name, tensor] : layer.named_buffers()) names += name + " ";
  BOOST_TEST(names == "weight bias running_mean running_var num_batches_tracked ");
  BOOST_TEST((layer.num_batches_tracked.dtype() == tendril::kInt64));
  layer.to(tendril::kFloat64);
  BOOST_TEST((layer.num_batches_tracked.dtype() == tendril::kInt64));
  BOOST_TEST(layer.to_string() == "BatchNorm2d(3, eps=1e-05, momentum=0.1, affine=true, track_running_stats=true)");
}

BOOST_AUTO_TEST_CASE(running_statistics_of_halves_are_float32) {
  tendril::Generator generator(test_seed());
  const Tensor values = make::empty({16, 3, 4, 4}, tendril::kFloat32);
  raw::normal_(values, 2, 0.5, generator);
  for (const tendril::DType half : {tendril::kBFloat16, tendril::kFloat16}) {
    for (const bool cast : {false, true}) {  // made so, or cast
      BatchNorm2d layer(3, {.momentum = 1e-3, .dtype = cast ? tendril::kFloat32 : half});
      BatchNorm2d wide(3, {.momentum = 1e-3});
      layer.to(half);
      BOOST_TEST((layer.weight.dtype() == half));
      const Tensor x = raw::cast(values, half);
      for (int step = 0; step < 1000; ++step) {
        layer(x);
        wide(raw::cast(x, tendril::kFloat32));
      }
      for (const auto& [name, buffer] : wide.named_buffers()) {
        const Tensor own = layer.state_dict().at(name);
        BOOST_TEST((own.dtype() == buffer.dtype()), name);
        BOOST_TEST(difference(own, buffer, 1e-4) == "", name);
      }
      layer.eval();
      BOOST_TEST((layer(x).dtype() == half));
      BatchNorm2d loaded(3, {.dtype = half});
      loaded.load_state_dict(layer.state_dict());
      BOOST_TEST(raw::equal(loaded.running_mean, layer.running_mean));
      tendril::StateDict old;  // saved when they were of the parameters' dtype
      for (const auto& [name, tensor] : layer.state_dict()) {
        old.insert(name, tendril::is_floating(tensor.dtype()) ? raw::cast(tensor, half) : tensor);
      }
      loaded.load_state_dict(old);
      BOOST_TEST((loaded.running_mean.dtype() == tendril::kFloat32));
      BOOST_TEST(raw::equal(loaded.running_mean, raw::cast(old.at("running_mean"), tendril::kFloat32)));
      loaded.to(tendril::kFloat64);
      BOOST_TEST((loaded.running_var.dtype() == tendril::kFloat64));
    }
  }
}

BOOST_AUTO_TEST_CASE(statistics_stay_float32_in_layers_that_were_moved_and_in_models) {
  tendril::nn::Sequential model(BatchNorm2d(3), tendril::nn::Conv2d(3, 2, {1, 1}));
  model.to(tendril::kFloat16);
  for (const auto& [name, buffer] : model.named_buffers()) {
    const bool counts = name == "0.num_batches_tracked";
    BOOST_TEST((buffer.dtype() == (counts ? tendril::kInt64 : tendril::kFloat32)), name);
  }
  for (const Tensor& parameter : model.parameters()) BOOST_TEST((parameter.dtype() == tendril::kFloat16));
  BOOST_TEST((model(make::ones({2, 3, 2, 2}, tendril::kFloat16)).dtype() == tendril::kFloat16));
  BatchNorm2d norm(2);
  tendril::nn::Conv2d conv(3, 2, {1, 1});
  norm.to(tendril::kBFloat16).eval();
  conv.to(tendril::kBFloat16).eval();
  const tendril::nn::Conv2d fused = tendril::nn::utils::fuse_conv_bn_eval(conv, norm);
  BOOST_TEST((fused.weight.dtype() == tendril::kBFloat16));
  BOOST_TEST((fused.bias.dtype() == tendril::kBFloat16));
}

BOOST_AUTO_TEST_CASE(statistics_of_large_means_keep_their_digits) {
  tendril::Generator generator(test_seed());
  Tensor x = make::empty({8, 2, 9, 9});
  raw::normal_(x, 0, 1, generator);
  const Tensor shifted = x + 1000;
  BatchNorm2d layer(2);
  // float32 keeps 1000 + x to 6e-5 (half a unit in the last place: 3e-5), and so is the result.
  BOOST_TEST(difference(layer(shifted), BatchNorm2d(2)(x), 0, 2e-4) == "");
}

BOOST_AUTO_TEST_CASE(a_backward_after_the_next_training_step_uses_its_own_statistics) {
  tendril::Generator generator(test_seed());
  Tensor x = make::empty({4, 2, 3, 3}, tendril::kFloat64);
  raw::normal_(x, 1, 2, generator);
  x.requires_grad_();
  BatchNorm2d layer(2, {.dtype = tendril::kFloat64});
  layer.eval();
  layer(x).square().sum().backward();
  const Tensor expected = raw::clone(x.grad());
  x.zero_grad();
  const Tensor loss = layer(x).square().sum();
  layer.train();
  layer(x);
  loss.backward();
  BOOST_TEST(difference(x.grad(), expected, 1e-14) == "");
}

BOOST_AUTO_TEST_CASE(an_empty_batch_teaches_nothing) {
  for (const tendril::Dims& sizes : {tendril::Dims{0, 3, 2, 2}, tendril::Dims{2, 3, 0, 2}}) {
    BatchNorm2d layer(3);
    raw::fill_(layer.running_mean, 0.5);
    raw::fill_(layer.running_var, 0.25);
    for (const bool training : {true, false}) {
      layer.train(training);
      const Tensor x = make::zeros(sizes).requires_grad_();
      const Tensor y = layer(x);
      BOOST_TEST((y.sizes() == sizes));
      const auto g = tendril::autograd::grad({y.sum()}, {x, layer.weight, layer.bias});
      BOOST_TEST((g[0].sizes() == sizes));
      for (const Tensor& of_channels : {g[1], g[2]}) BOOST_TEST(raw::equal(of_channels, make::zeros({3})));
    }
    BOOST_TEST(raw::equal(layer.running_mean, make::full({3}, 0.5)));
    BOOST_TEST(raw::equal(layer.running_var, make::full({3}, 0.25)));
    BOOST_TEST(layer.num_batches_tracked.item<int64_t>() == 1);  // as PyTorch counts
  }
  BOOST_TEST((tendril::batch_norm(make::zeros({0, 3}), {}, {}, {}, {}, true).sizes() == tendril::Dims{0, 3}));
}

BOOST_AUTO_TEST_CASE(running_statistics_can_be_reset) {
  BatchNorm2d layer(2);
  layer(tendril::make::arange(0, 16, 1, tendril::kFloat32).reshape({2, 2, 2, 2}));
  BOOST_TEST(layer.num_batches_tracked.item<int64_t>() == 1);
  BOOST_TEST(!raw::equal(layer.running_mean, make::zeros({2})));
  layer.reset_running_stats();
  BOOST_TEST(layer.num_batches_tracked.item<int64_t>() == 0);
  BOOST_TEST(raw::equal(layer.running_mean, make::zeros({2})));
  BOOST_TEST(raw::equal(layer.running_var, make::ones({2})));
}

BOOST_AUTO_TEST_CASE(what_does_not_fit_is_refused) {
  BatchNorm2d layer(3);
  BOOST_CHECK_EXCEPTION(layer(make::ones({2, 2, 4, 4})), ShapeError, says("BatchNorm2d", "[2, 2, 4, 4]", "3"));
  BOOST_CHECK_EXCEPTION(layer(make::ones({2, 3})), ShapeError, says("BatchNorm2d", "[2, 3]"));
  BOOST_CHECK_EXCEPTION(layer(make::ones({1, 3, 1, 1})), ShapeError, says("more than one value", "[1, 3, 1, 1]"));
  BOOST_TEST(layer.num_batches_tracked.item<int64_t>() == 0);
  BOOST_CHECK_EXCEPTION(layer(make::ones({2, 3, 4, 4}, tendril::kFloat64)), DTypeError, says("float32", "float64"));
  BOOST_CHECK_EXCEPTION(layer(Tensor()), Error, says("undefined"));
  BOOST_CHECK_EXCEPTION(tendril::batch_norm(make::ones({2, 3}), {}, {}), Error, says("running_mean"));
  BOOST_CHECK_EXCEPTION(BatchNorm2d(0), Error, says("num_features", "0"));
  BOOST_CHECK_EXCEPTION(BatchNorm2d(2, {.eps = -1}), Error, says("eps", "-1"));
  BOOST_CHECK_EXCEPTION(BatchNorm2d(2, {.momentum = 2}), Error, says("momentum", "2"));
}

BOOST_AUTO_TEST_CASE(with_a_sum_and_a_relu_it_is_the_three) {
  tendril::Generator generator(test_seed());
  // Rows longer than the pieces that gradients are taken in.
  for (const tendril::Dims& sizes : {tendril::Dims{3, 5, 37, 31}, tendril::Dims{2, 3, 1, 1}}) {
    const auto draw = [&](double low) {
      const Tensor t = raw::empty(sizes, tendril::kFloat64);
      raw::uniform_(t, low, 2, generator);
      return t.to(tendril::default_device()).requires_grad_();
    };
    Tensor x = draw(-2), residual = draw(-2);
    const Tensor g = draw(-1).detach();
    for (bool training : {true, false}) {
      for (bool add : {true, false}) {
        std::vector<std::vector<Tensor>> results;
        for (bool fused : {true, false}) {
          BatchNorm2d layer(sizes[1], {.dtype = tendril::kFloat64});
          layer.train(training);
          tendril::Generator same(test_seed(1));
          raw::uniform_(layer.weight, 0.5, 2, same);
          x.zero_grad();
          residual.zero_grad();
          const Tensor y =
              fused ? layer.forward_relu(x, add ? residual : Tensor()) : (add ? layer(x) + residual : layer(x)).relu();
          y.backward(g);
          std::vector<Tensor> all = {
              y, x.grad(), layer.weight.grad(), layer.bias.grad(), layer.running_mean, layer.running_var};
          if (add) all.push_back(residual.grad());
          results.push_back(all);
        }
        for (std::size_t i = 0; i < results[0].size(); ++i) {
          BOOST_TEST(difference(results[0][i], results[1][i], 1e-12, 1e-12) == "",
                     i << (training ? " in training" : " in evaluation") << (add ? " with a sum" : ""));
        }
      }
    }
  }
  BatchNorm2d layer(3);
  const Tensor x = make::ones({2, 3, 2, 2});
  BOOST_CHECK_EXCEPTION(layer.forward_relu(x, make::ones({2, 3, 2, 1})), ShapeError,
                        says("batch_norm_relu", "residual", "[2, 3, 2, 1]", "[2, 3, 2, 2]"));
}

BOOST_AUTO_TEST_SUITE_END()
