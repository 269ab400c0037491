#include "tendril/nn/conv.h"

#include <algorithm>
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <string>
#include <thread>
#include <vector>

#include "tendril/autograd/autocast.h"
#include "tendril/autograd/backward.h"
#include "tendril/autograd/checkpoint.h"
#include "tendril/autograd/detail/prepared_conv.h"
#include "tendril/autograd/grad_mode.h"
#include "tendril/autograd/ops/conv.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/autograd/ops/reduce.h"
#include "tendril/autograd/saved_hooks.h"
#include "tendril/nn/init.h"
#include "tendril/nn/optim/sgd.h"
#include "tendril/tensor/cpu/paths.h"
#include "tendril/tensor/memory.h"
#include "tendril/tensor/raw.h"
#include "tendril/tensor/threads.h"
#include "tests/errors.h"
#include "tests/make.h"
#include "tests/nn/layer_golden.h"
#include "tests/seed.h"

BOOST_AUTO_TEST_SUITE(conv)

using tendril::ConvGeometry;
using tendril::DTypeError;
using tendril::Error;
using tendril::ShapeError;
using tendril::Tensor;
using tendril::nn::Conv2d;
using tendril::testing::says;
using tendril::testing::test_seed;
namespace cpu = tendril::cpu;
namespace make = tendril::make;
namespace raw = tendril::raw;

BOOST_AUTO_TEST_CASE(values_and_gradients_equal_pytorchs) {
  const tendril::testing::Golden golden(TENDRIL_TEST_DATA "/conv.txt");
  const std::vector<std::pair<std::string, ConvGeometry>> cases = {
      {"plain", {}},
      {"options", {.stride = {2, 1}, .padding = {1, 2}, .dilation = {1, 2}, .groups = 2}},
      {"one_place", {}},
      {"one_place_stride", {.stride = 2}},
      {"depthwise", {.padding = 1, .groups = 3}},
      {"unbatched", {.stride = 2, .padding = 1}}};
  for (tendril::DType dtype : {tendril::kFloat64, tendril::kFloat32}) {
    for (const auto& [name, g] : cases) {
      Tensor x = golden.get(name + ".x", dtype).requires_grad_();
      const Tensor weight = golden.get(name + ".weight", dtype);
      const bool bias = golden.has(name + ".bias");
      Conv2d layer(weight.size(1) * g.groups, weight.size(0), {weight.size(2), weight.size(3)},
                   {.stride = g.stride,
                    .padding = g.padding,
                    .dilation = g.dilation,
                    .groups = g.groups,
                    .bias = bias,
                    .dtype = dtype});
      raw::copy_(layer.weight, weight);
      std::vector<std::pair<std::string, Tensor>> leaves = {{"x", x}, {"weight", layer.weight}};
      if (bias) {
        raw::copy_(layer.bias, golden.get(name + ".bias", dtype));
        leaves.emplace_back("bias", layer.bias);
      }
      check_layer(
          golden, name, dtype, [&] { return layer(x); }, leaves);
    }
  }
}

BOOST_AUTO_TEST_CASE(float32_by_the_fast_path_is_close_to_float64_over_many_shapes) {
  tendril::Generator generator(test_seed());
  const auto draw = [&](const tendril::Dims& sizes) {
    const Tensor x = make::empty(sizes, tendril::kFloat64);
    raw::uniform_(x, -1, 1, generator);
    return raw::cast(raw::cast(x, tendril::kFloat32), tendril::kFloat64);  // the same values in both
  };
  struct Case {
    int64_t images, in, out;
    tendril::Size2 image, kernel;
    ConvGeometry geometry;
  };
  const Case cases[] = {{3, 8, 16, 9, 3, {.padding = 1}},
                        {40, 8, 24, 6, 3, {.stride = 2, .padding = 1}},
                        {5, 32, 16, {33, 40}, 1, {}},
                        {70, 16, 48, 4, 1, {}},
                        {2, 3, 8, 30, 7, {.stride = 2, .padding = 3}},
                        {4, 12, 12, {7, 5}, {1, 3}, {.padding = {0, 2}, .dilation = 2, .groups = 4}},
                        {0, 3, 4, 5, 3, {}}};
  for (const Case& c : cases) {
    const Tensor x = draw({c.images, c.in, c.image.h, c.image.w});
    const Tensor w = draw({c.out, c.in / c.geometry.groups, c.kernel.h, c.kernel.w});
    Tensor results[2][3];
    for (const bool wide : {true, false}) {
      const tendril::DType dtype = wide ? tendril::kFloat64 : tendril::kFloat32;
      Tensor a = raw::clone(raw::cast(x, dtype)).requires_grad_(), b = raw::clone(raw::cast(w, dtype)).requires_grad_();
      const Tensor y = conv2d(a, b, {}, c.geometry);
      y.backward(y.detach());
      results[wide][0] = y.detach();
      results[wide][1] = a.grad();
      results[wide][2] = b.grad();
    }
    for (int i = 0; i < 3; ++i) {
      // Sums of up to 10^4 products of numbers around 1 (and of sums of those): 1e-6 of the largest; on a device, where
      // they may be added up one by one, ten times as much.
      const double rtol = tendril::default_device().is_cpu() ? 2e-6 : 2e-5;
      const Tensor& exact = results[1][i];
      double largest = 0;
      for (double value : exact.to_vector<double>()) largest = std::max(largest, std::abs(value));
      BOOST_TEST(tendril::testing::difference(results[0][i], exact, 0, rtol * largest) == "",
                 "result " << i << " of x " << x.sizes() << ", weight " << w.sizes());
    }
  }
}

BOOST_AUTO_TEST_CASE(it_prints_as_pytorch_does) {
  BOOST_TEST(Conv2d(3, 8, 3).to_string() == "Conv2d(3, 8, kernel_size=[3, 3], stride=[1, 1])");
  BOOST_TEST(
      Conv2d(4, 8, {3, 1}, {.stride = 2, .padding = {1, 0}, .dilation = 2, .groups = 2, .bias = false}).to_string() ==
      "Conv2d(4, 8, kernel_size=[3, 1], stride=[2, 2], padding=[1, 0], dilation=[2, 2], groups=2, bias=false)");
}

BOOST_AUTO_TEST_CASE(initial_values_keep_within_pytorchs_bound) {
  tendril::Generator generator(test_seed());
  Conv2d layer(8, 64, 3, {.groups = 2, .generator = generator});
  double largest = 0, sum = 0;
  for (double value : layer.weight.to_vector<double>()) {
    largest = std::max(largest, std::abs(value));
    sum += value * value;
  }
  const double bound = 1.0 / 6;  // fan in 4 * 9
  BOOST_TEST(largest <= bound);
  BOOST_TEST(largest > 0.99 * bound);
  BOOST_TEST(sum / 2304 == bound * bound / 3, boost::test_tools::tolerance(0.14));
  for (double value : layer.bias.to_vector<double>()) BOOST_TEST(std::abs(value) <= bound);
}

BOOST_AUTO_TEST_CASE(what_does_not_fit_is_refused) {
  const Tensor x = make::ones({2, 4, 5, 5}), weight = make::ones({6, 4, 3, 3});
  BOOST_CHECK_EXCEPTION(conv2d(make::ones({2, 3, 5, 5}), weight), ShapeError, says("conv2d", "[2, 3, 5, 5]", "4"));
  BOOST_CHECK_EXCEPTION(conv2d(make::ones({5, 5}), weight), ShapeError, says("conv2d", "[5, 5]"));
  BOOST_CHECK_EXCEPTION(conv2d(x, make::ones({6, 4, 3})), ShapeError, says("weight", "[6, 4, 3]"));
  BOOST_CHECK_EXCEPTION(conv2d(x, make::ones({6, 4, 6, 3})), ShapeError, says("kernel", "[6, 3]", "[5, 5]"));
  BOOST_CHECK_EXCEPTION(conv2d(x, weight, {}, {.dilation = {1, 3}}), ShapeError, says("dilated", "[1, 3]"));
  BOOST_CHECK_EXCEPTION(conv2d(x, make::ones({5, 2, 3, 3}), {}, {.groups = 2}), ShapeError,
                        says("5 output", "2 groups"));
  BOOST_CHECK_EXCEPTION(conv2d(x, weight, make::ones({5})), ShapeError, says("bias", "[5]", "[6]"));
  BOOST_CHECK_EXCEPTION(conv2d(x, weight, {}, {.stride = 0}), Error, says("stride", "[0, 0]"));
  BOOST_CHECK_EXCEPTION(conv2d(x, weight, {}, {.padding = {0, -1}}), Error, says("padding", "[0, -1]"));
  BOOST_CHECK_EXCEPTION(conv2d(x, weight, {}, {.dilation = 0}), Error, says("dilation"));
  BOOST_CHECK_EXCEPTION(conv2d(x, weight, {}, {.groups = 0}), Error, says("groups", "0"));
  BOOST_CHECK_EXCEPTION(conv2d(x, raw::cast(weight, tendril::kFloat64)), DTypeError, says("float64", "float32"));
  BOOST_CHECK_EXCEPTION(conv2d(raw::cast(x, tendril::kBool), raw::cast(weight, tendril::kBool)), DTypeError,
                        says("conv2d", "bool"));
  BOOST_CHECK_EXCEPTION(conv2d(Tensor(), weight), Error, says("x is undefined"));
  BOOST_CHECK_EXCEPTION(Conv2d(3, 4, 3, {.groups = 2}), Error, says("in_channels", "3", "2"));
  BOOST_CHECK_EXCEPTION(Conv2d(4, 3, 3, {.groups = 2}), Error, says("out_channels", "3", "2"));
  BOOST_CHECK_EXCEPTION(Conv2d(4, 4, {3, 0}), Error, says("kernel_size", "[3, 0]"));
}

/// 1 in each of its places: results are sums of the images'.
Conv2d ones(int64_t channels, int64_t kernel) {
  Conv2d layer(channels, channels, kernel, {.bias = false});
  tendril::nn::init::ones_(layer.weight);
  layer.eval();
  return layer;
}

/// In sixteenths: Winograd's form is not exact.
double first_of(const Tensor& x) { return std::round(x.flatten(0)[0].item<double>() * 16) / 16; }

BOOST_AUTO_TEST_CASE(in_evaluation_it_computes_with_its_weight_as_that_is_now) {
  for (const int64_t kernel : {1, 3}) {
    Conv2d layer = ones(64, kernel);
    const Tensor x = make::ones({2, 64, 16, 16});
    const double sum = static_cast<double>(64 * kernel * kernel);
    const auto first = [&] {
      const tendril::NoGrad no_grad;
      return first_of(layer(x));
    };
    BOOST_TEST(first() == sum);
    BOOST_TEST(first() == sum);
    {
      const tendril::NoGrad no_grad;
      layer.weight *= 2;
    }
    BOOST_TEST(first() == 2 * sum);
    {
      const tendril::NoGrad no_grad;
      layer.weight[0].fill_(0.5);  // a view
    }
    BOOST_TEST(first() == sum / 2);
    layer.train();
    tendril::optim::SGD optimizer(layer.parameters(), {.lr = 1});
    layer(x).sum().backward();
    optimizer.step();
    layer.eval();
    const double after = first();
    BOOST_TEST(after != sum / 2);
    BOOST_TEST(after == first());
    layer.load_state_dict(ones(64, kernel).state_dict());
    BOOST_TEST(first() == sum);
    layer.weight = make::full({64, 64, kernel, kernel}, 3);
    BOOST_TEST(first() == 3 * sum);
    Conv2d moved = std::move(layer);
    const tendril::NoGrad no_grad;
    BOOST_TEST(first_of(moved(x)) == 3 * sum);
  }
}

BOOST_AUTO_TEST_CASE(writes_that_raise_no_version_are_seen_in_evaluation) {
  if (!tendril::default_device().is_cpu()) return;
  const tendril::NoGrad no_grad;
  const Tensor x = make::ones({1, 64, 16, 16});
  const auto check = [&](Conv2d& layer, float* elements) {
    const double before = first_of(layer(x));
    std::fill_n(elements, layer.weight.numel(), 2.0F);
    BOOST_TEST(first_of(layer(x)) == 2 * before);
  };
  Conv2d pointed = ones(64, 3);
  float* const elements = pointed.weight.mutable_data<float>();  // and kept
  check(pointed, elements);
  std::vector<float> own(64 * 64 * 9, 1);
  Conv2d wrapped = ones(64, 3);
  wrapped.weight = raw::from_blob(own.data(), {64, 64, 3, 3});
  check(wrapped, own.data());
}

BOOST_AUTO_TEST_CASE(reading_a_weight_keeps_its_packed_form) {
  if (!tendril::default_device().is_cpu()) return;
  const tendril::NoGrad no_grad;
  Conv2d layer = ones(64, 3);
  const Tensor x = make::ones({1, 64, 16, 16});
  layer(x);
  BOOST_TEST(*layer.weight.data<float>() == 1);
  BOOST_TEST(*layer.weight.const_data_ptr<float>() == 1);
  BOOST_TEST((layer.weight.accessor<const float, 4>()[0][0][0][0]) == 1);
  BOOST_TEST(!layer.weight.storage()->may_change_unseen());
  (void)layer.weight.data_ptr<float>();
  BOOST_TEST(layer.weight.storage()->may_change_unseen());
}

BOOST_AUTO_TEST_CASE(who_writes_by_an_unchecked_address_says_so) {
  if (!tendril::default_device().is_cpu()) return;
  const tendril::NoGrad no_grad;
  Conv2d layer = ones(64, 3);
  const Tensor x = make::ones({1, 64, 16, 16});
  const double before = first_of(layer(x));
  std::fill_n(static_cast<float*>(layer.weight.raw_data()), layer.weight.numel(), 2.0F);
  layer.weight.storage()->bump_version();
  BOOST_TEST(first_of(layer(x)) == 2 * before);
}

BOOST_AUTO_TEST_CASE(a_part_of_a_weight_is_not_taken_for_the_whole) {
  const tendril::NoGrad no_grad;
  Conv2d layer = ones(64, 3);
  const Tensor whole = layer.weight.detach(), x = make::ones({1, 64, 16, 16});
  layer.weight = whole.narrow(0, 0, 32);
  BOOST_TEST(layer(x).size(1) == 32);
  layer.weight = whole;
  BOOST_TEST(layer(x).size(1) == 64);
  BOOST_TEST(std::abs(layer(x).min().item<double>() - 64 * 9) < 1e-2);
}

BOOST_AUTO_TEST_CASE(under_autocast_it_computes_with_the_cast_weight) {
  const tendril::NoGrad no_grad;
  Conv2d layer = ones(64, 3);
  const Tensor x = make::ones({1, 64, 16, 16}), before = layer(x);
  {
    const tendril::Autocast low(tendril::kBFloat16);
    BOOST_TEST(layer(x).dtype() == tendril::kBFloat16);
    layer.weight *= 2;
    BOOST_TEST(first_of(layer(x).to(tendril::kFloat32)) == 2 * 64 * 9);
  }
  BOOST_TEST(first_of(layer(x)) == 2 * 64 * 9);
}

BOOST_AUTO_TEST_CASE(a_layer_of_sequences_keeps_its_weight_as_one_of_images_does) {
  tendril::nn::Conv1d layer(64, 64, 1, {.bias = false});
  tendril::nn::init::ones_(layer.weight);
  layer.eval();
  const Tensor x = make::ones({2, 64, 200});
  const auto first = [&] {
    const tendril::NoGrad no_grad;
    return first_of(layer(x));
  };
  BOOST_TEST(first() == 64);
  BOOST_TEST(first() == 64);
  {
    const tendril::NoGrad no_grad;
    layer.weight *= 2;
  }
  BOOST_TEST(first() == 128);
}

BOOST_AUTO_TEST_CASE(what_it_keeps_for_evaluation_is_given_back_when_it_trains) {
  if (!tendril::default_device().is_cpu()) return;
  Conv2d layer = ones(64, 3);
  const Tensor x = make::ones({1, 64, 16, 16});
  const auto evaluate = [&] {
    const tendril::NoGrad no_grad;
    layer(x);
  };
  const auto live = [] { return tendril::memory::stats().live_bytes; };
  const auto before = live();
  evaluate();
  const auto kept = live();
  if (kept == before) return;  // no kernel here wants another form
  evaluate();
  BOOST_TEST(live() == kept);
  layer(x);  // recorded
  BOOST_TEST(live() == before);
  evaluate();
  BOOST_TEST(live() == kept);
  layer.train();
  layer(x);
  BOOST_TEST(live() == before);
  layer.eval();
  tendril::detail::PreparedWeight prepared;
  const auto with_relu = [&] { tendril::autograd::detail::conv2d_prepared(x, layer.weight, {}, {}, true, prepared); };
  {
    const tendril::NoGrad no_grad;
    with_relu();
  }
  BOOST_TEST(live() == kept);
  with_relu();  // recorded
  BOOST_TEST(live() == before);
}

BOOST_AUTO_TEST_CASE(what_it_keeps_goes_when_half_types_take_its_place) {
  if (!tendril::default_device().is_cpu()) return;
  Conv2d layer(64, 64, 3, {.bias = false});
  const Tensor x = make::ones({1, 64, 16, 16});
  const tendril::NoGrad no_grad;
  const auto live = [] { return tendril::memory::stats().live_bytes; };
  const auto before = live();
  layer(x);
  const auto kept = live();
  if (kept == before) return;  // no kernel here wants another form
  {
    const tendril::autograd::Autocast half;
    layer(x);
  }
  BOOST_TEST(live() == before);
  layer(x);
  BOOST_TEST(live() == kept);
}

BOOST_AUTO_TEST_CASE(micro_batches_put_the_weight_in_order_twice_and_get_the_bits_of_the_function) {
  if (!tendril::default_device().is_cpu()) return;
  for (const int64_t kernel : {1, 3}) {
    Conv2d layer(64, 64, kernel, {.padding = kernel / 2, .bias = false});
    const Tensor x = make::arange(0, 64 * 16 * 16, 1, tendril::kFloat32).view({1, 64, 16, 16}).sin().requires_grad_();
    const auto live = [] { return tendril::memory::stats().live_bytes; };
    const auto turned = [] { return cpu::taken(cpu::Path::turned_weight) + cpu::taken(cpu::Path::mapped_weight); };
    const auto gradient = [&](const Tensor& y) { return tendril::autograd::grad({y.pow(2.0).sum()}, {x})[0]; };
    const auto parts = static_cast<uint64_t>(tendril::num_threads());  // each thread puts it in order for its own
    for (int step = 0; step < 2; ++step) {
      const Tensor expected = gradient(tendril::conv2d(x, layer.weight, {}, layer.geometry()));
      const auto before = live();
      const uint64_t turned_before = turned();
      for (int batch = 0; batch < 4; ++batch) {
        BOOST_TEST(raw::equal(gradient(layer(x)), expected));
        const uint64_t each_way = turned() - turned_before;
        if (batch == 0) BOOST_TEST(live() == before);
        if (batch > 0 && each_way > 0) BOOST_TEST(live() > before);
        BOOST_TEST(each_way <= 2U * parts * static_cast<uint64_t>(std::min(batch + 1, 2)));
      }
      const tendril::NoGrad no_grad;
      layer.weight *= 2;  // what was kept goes with the next step's first call
      layer.train();
      const tendril::EnableGrad recording;
      layer(x);
      BOOST_TEST(live() == before);
      layer.weight.storage()->bump_version();
    }
  }
}

BOOST_AUTO_TEST_CASE(a_pointer_that_is_taken_before_backward_ends_what_was_kept) {
  if (!tendril::default_device().is_cpu()) return;
  Conv2d layer = ones(64, 3);
  const Tensor x = make::ones({1, 64, 16, 16}).requires_grad_();
  const auto gradient = [&](const Tensor& y) { return first_of(tendril::autograd::grad({y.sum()}, {x})[0]); };
  for (int batch = 0; batch < 3; ++batch) BOOST_TEST(gradient(layer(x)) == 64);
  const Tensor y = layer(x);
  std::fill_n(layer.weight.mutable_data<float>(), layer.weight.numel(), 2.0F);
  BOOST_TEST(gradient(y) == 2 * 64);
}

BOOST_AUTO_TEST_CASE(a_checkpoint_and_a_loss_that_is_kept_hold_no_form_of_the_weight) {
  if (!tendril::default_device().is_cpu()) return;
  Conv2d layer = ones(64, 3);
  layer.train();
  const Tensor x = make::ones({1, 64, 16, 16}).requires_grad_();
  const auto live = [] { return tendril::memory::stats().live_bytes; };
  const auto function = [&](const Tensor& y) { return layer(y); };
  const auto step = [&] { return tendril::autograd::grad({tendril::autograd::checkpoint(function, x).sum()}, {x})[0]; };
  const auto before = live();
  (void)step();
  BOOST_TEST(live() == before);
  layer.weight.storage()->bump_version();
  Tensor loss = layer(x).sum();
  const auto graph = live() - before;
  loss = {};
  layer.weight.storage()->bump_version();
  loss = layer(x).sum();
  for (int batch = 0; batch < 2; ++batch) (void)tendril::autograd::grad({layer(x).sum()}, {x});
  layer.weight.storage()->bump_version();
  (void)layer(x);
  BOOST_TEST(live() == before + graph);
}

BOOST_AUTO_TEST_CASE(backward_unpacks_each_saved_tensor_once) {
  int unpacked = 0;
  Conv2d layer = ones(4, 3);
  const Tensor x = make::ones({1, 4, 8, 8}).requires_grad_();
  Tensor y;
  {
    const tendril::autograd::SavedTensorHooks hooks([](const Tensor& t) { return std::any(t); },
                                                    [&](const std::any& kept) {
                                                      ++unpacked;
                                                      return std::any_cast<const Tensor&>(kept);
                                                    });
    y = layer(x);
  }
  y.sum().backward();
  BOOST_TEST(unpacked == 2);
}

BOOST_AUTO_TEST_CASE(several_threads_may_train_through_one_layer) {
  Conv2d layer = ones(64, 3);
  layer.train();
  std::atomic<int> right{0};
  for (int step = 0; step < 3; ++step) {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        const Tensor x = make::ones({1, 64, 16, 16}).requires_grad_();
        for (int round = 0; round < 3; ++round) {
          right += first_of(tendril::autograd::grad({layer(x).sum()}, {x})[0]) == 64;
        }
      });
    }
    threads.clear();
    layer.weight.storage()->bump_version();
  }
  BOOST_TEST(right == 36);
}

BOOST_AUTO_TEST_CASE(several_threads_may_evaluate_one_layer) {
  Conv2d layer = ones(64, 3);
  const Tensor x = make::ones({1, 64, 16, 16});
  std::atomic<int> right{0};
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      const tendril::NoGrad no_grad;
      for (int round = 0; round < 5; ++round) right += first_of(layer(x)) == 64 * 9;
    });
  }
  threads.clear();
  BOOST_TEST(right == 20);
}

BOOST_AUTO_TEST_SUITE_END()
