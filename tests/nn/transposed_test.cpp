// Transposed convolutions, pooling of sequences, and a rectifier with random slopes.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "tendril/autograd/gradcheck.h"
#include "tendril/autograd/ops/conv.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/nn/activation.h"
#include "tendril/nn/conv.h"
#include "tendril/nn/pooling.h"
#include "tendril/tensor/raw.h"
#include "tests/errors.h"
#include "tests/make.h"
#include "tests/nn/layer_golden.h"
#include "tests/seed.h"

BOOST_AUTO_TEST_SUITE(transposed)

using namespace tendril;
using tendril::testing::Golden;
using tendril::testing::says;
using tendril::testing::test_seed;

namespace {

/// golden_layers.py's with_parameters of a layer whose input is "x".
template <class Layer>
void check_golden(const Golden& golden, const std::string& name, DType dtype, const Layer& layer) {
  const Tensor x = golden.get(name + ".x", dtype).requires_grad_();
  std::vector<std::pair<std::string, Tensor>> leaves = {{"x", x}};
  for (const auto& [key, parameter] : layer.named_parameters()) {
    raw::copy_(parameter, golden.get(name + "." + key, dtype));
    leaves.emplace_back(key, parameter);
  }
  check_layer(
      golden, name, dtype, [&] { return layer(x); }, leaves, 2);
}

Tensor draw(const Dims& sizes, uint64_t seed = 5) {
  Generator generator(test_seed(seed));
  Tensor x = make::empty(sizes, kFloat64);
  raw::uniform_(x, -1, 1, generator);
  return x.requires_grad_();
}

/// Returns equally spaced values in a random order, so that no maximum has ties.
Tensor distinct(const Dims& sizes) {
  Generator generator(test_seed());
  const int64_t count = numel_of(sizes);
  return (make::randperm(count, generator).to(kFloat64).view(sizes) / static_cast<double>(count) - 0.4)
      .requires_grad_();
}

void check_derivatives(const std::string& name, const autograd::DifferentiableFunction& f,
                       const std::vector<Tensor>& inputs) {
  BOOST_TEST_CONTEXT(name) {
    const auto first = autograd::gradcheck(f, inputs);
    BOOST_TEST(first.ok, first.message);
    const auto second = autograd::gradgradcheck(f, inputs);
    BOOST_TEST(second.ok, second.message);
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(transposed_convolutions_equal_pytorchs) {
  const Golden golden(TENDRIL_TEST_DATA "/conv_transpose.txt");
  for (const DType dtype : {kFloat64, kFloat32}) {
    check_golden(golden, "plain", dtype, nn::ConvTranspose2d(3, 2, 3, {.dtype = dtype}));
    check_golden(golden, "options", dtype,
                 nn::ConvTranspose2d(4, 6, {2, 3},
                                     {.stride = {3, 2},
                                      .padding = {1, 2},
                                      .output_padding = {2, 1},
                                      .dilation = {1, 2},
                                      .groups = 2,
                                      .dtype = dtype}));
    check_golden(golden, "dilated", dtype,
                 nn::ConvTranspose2d(2, 3, 2, {.output_padding = 1, .dilation = 2, .bias = false, .dtype = dtype}));
    check_golden(golden, "unbatched", dtype, nn::ConvTranspose2d(2, 1, 2, {.stride = 2, .dtype = dtype}));
    check_golden(golden, "line", dtype, nn::ConvTranspose1d(3, 2, 3, {.dtype = dtype}));
    check_golden(
        golden, "line_options", dtype,
        nn::ConvTranspose1d(
            4, 6, 3, {.stride = 3, .padding = 2, .output_padding = 2, .dilation = 2, .groups = 2, .dtype = dtype}));
    check_golden(golden, "line_unbatched", dtype, nn::ConvTranspose1d(2, 3, 2, {.bias = false, .dtype = dtype}));
  }
}

BOOST_AUTO_TEST_CASE(a_transposed_convolution_has_both_derivatives) {
  const auto with = [](const ConvGeometry& geometry, Size2 extra) {
    return [geometry, extra](const std::vector<Tensor>& in) {
      return std::vector<Tensor>{conv_transpose2d(in[0], in[1], in.size() > 2 ? in[2] : Tensor(), geometry, extra)};
    };
  };
  check_derivatives("plain", with({}, 0), {draw({2, 2, 2, 2}), draw({2, 1, 2, 3}, 6), draw({1}, 7)});
  check_derivatives("all options", with({.stride = {2, 1}, .padding = {1, 0}, .dilation = {1, 2}, .groups = 2}, {1, 1}),
                    {draw({1, 2, 2, 3}), draw({2, 1, 3, 2}, 6), draw({2}, 7)});
  check_derivatives("of one image", with({.stride = 2}, 0), {draw({1, 2, 2}), draw({1, 2, 2, 1}, 6)});
  check_derivatives("of sequences",
                    [](const std::vector<Tensor>& in) {
                      return std::vector<Tensor>{
                          conv_transpose1d(in[0], in[1], in[2], {.stride = 2, .padding = 1, .dilation = 2}, 1)};
                    },
                    {draw({2, 2, 3}), draw({2, 1, 2}, 6), draw({1}, 7)});
}

BOOST_AUTO_TEST_CASE(it_is_the_transpose_of_the_convolution) {
  const ConvGeometry geometry{.stride = {2, 3}, .padding = {1, 0}, .dilation = {1, 2}, .groups = 2};
  const Tensor image = draw({2, 4, 7, 9}).detach(), weight = draw({6, 2, 2, 3}, 6).detach();
  const Tensor out = conv2d(image, weight, {}, geometry), g = draw(out.sizes(), 7).detach();
  const int64_t rows = (out.size(2) - 1) * 2 - 2 + 1 + 1, columns = (out.size(3) - 1) * 3 + 4 + 1;
  const Tensor back = conv_transpose2d(g, weight, {}, geometry, {7 - rows, 9 - columns});
  BOOST_TEST((back.sizes() == image.sizes()));
  BOOST_TEST(std::abs((out * g).sum().item<double>() - (back * image).sum().item<double>()) < 1e-12);
}

BOOST_AUTO_TEST_CASE(transposed_convolutions_take_half_types) {
  const Tensor x = make::ones({1, 2, 3, 3}, kBFloat16).requires_grad_(), w = make::ones({2, 1, 2, 2}, kBFloat16);
  const Tensor y = conv_transpose2d(x, w, make::ones({1}, kBFloat16));
  BOOST_TEST((y.dtype() == kBFloat16));
  BOOST_TEST(y[0][0][1][1].item<double>() == 9);
  y.sum().backward();
  BOOST_TEST(x.grad().sum().item<double>() == 72);
}

BOOST_AUTO_TEST_CASE(transposed_convolutions_refuse_what_does_not_fit) {
  const Tensor x = make::ones({1, 4, 3, 3}), w = make::ones({4, 1, 2, 2});
  BOOST_CHECK_EXCEPTION(conv_transpose2d(x, make::ones({3, 1, 2, 2})), ShapeError,
                        says("conv_transpose2d", "[1, 4, 3, 3]", "3"));
  BOOST_CHECK_EXCEPTION(conv_transpose2d(x, w, {}, {.groups = 3}), ShapeError, says("conv_transpose2d", "4", "3"));
  BOOST_CHECK_EXCEPTION(conv_transpose2d(x, w, {}, {.stride = 2}, 2), Error, says("output_padding", "[2, 2]"));
  for (const ConvGeometry& g : {ConvGeometry{.stride = INT64_MAX / 2}, ConvGeometry{.padding = INT64_MAX},
                                ConvGeometry{.dilation = INT64_MAX}}) {
    BOOST_CHECK_EXCEPTION(conv_transpose2d(x, w, {}, g), ShapeError, says("conv_transpose2d", "the result would be"));
  }
  BOOST_CHECK_EXCEPTION(conv_transpose2d(x, w, {}, {.padding = 3}), ShapeError, says("conv_transpose2d", "padding"));
  BOOST_CHECK_EXCEPTION(conv_transpose2d(x, w, make::ones({2})), ShapeError, says("bias", "[2]", "[1]"));
  BOOST_CHECK_EXCEPTION(conv_transpose2d(x, w.to(kFloat64)), DTypeError, says("weight", "float64"));
  BOOST_CHECK_EXCEPTION(conv_transpose2d(make::ones({1, 4, 0, 3}), w), ShapeError, says("[1, 4, 0, 3]"));
  BOOST_CHECK_EXCEPTION(conv_transpose1d(make::ones({4}), make::ones({4, 1, 2})), ShapeError,
                        says("conv_transpose1d", "[4]"));
  BOOST_CHECK_EXCEPTION(conv_transpose2d({}, w), Error, says("conv_transpose2d", "x is undefined"));
  BOOST_CHECK_EXCEPTION(nn::ConvTranspose2d(4, 2, 3, {.groups = 4}), Error,
                        says("ConvTranspose2d", "out_channels", "2"));
  BOOST_CHECK_EXCEPTION(nn::ConvTranspose1d(4, 2, 3, {.output_padding = 1}), Error,
                        says("ConvTranspose1d", "output_padding"));
  BOOST_TEST(nn::ConvTranspose2d(4, 2, 3, {.stride = 2, .output_padding = 1}).to_string() ==
             "ConvTranspose2d(4, 2, kernel_size=[3, 3], stride=[2, 2], output_padding=[1, 1])");
  BOOST_TEST(nn::ConvTranspose1d(4, 2, 3).to_string() == "ConvTranspose1d(4, 2, kernel_size=3, stride=1)");
}

BOOST_AUTO_TEST_CASE(pooling_of_sequences_equals_pytorchs) {
  const Golden golden(TENDRIL_TEST_DATA "/pooling1d.txt");
  const std::vector<std::pair<std::string, std::function<Tensor(const Tensor&)>>> lines = {
      {"max", [](const Tensor& x) { return nn::MaxPool1d(2)(x); }},
      {"max_options",
       [](const Tensor& x) {
         return nn::MaxPool1d(3, {.stride = 2, .padding = 1, .dilation = 2, .ceil_mode = true})(x);
       }},
      {"avg", [](const Tensor& x) { return nn::AvgPool1d(3)(x); }},
      {"avg_options",
       [](const Tensor& x) {
         return nn::AvgPool1d(4, {.stride = 2, .padding = 2, .ceil_mode = true, .count_include_pad = false})(x);
       }},
      {"adaptive_avg", [](const Tensor& x) { return nn::AdaptiveAvgPool1d(4)(x); }},
      {"adaptive_max", [](const Tensor& x) { return nn::AdaptiveMaxPool1d(4)(x); }},
      {"rrelu",
       [](const Tensor& x) {
         nn::RReLU layer(0.1, 0.5);
         layer.eval();
         return layer(x);
       }},
  };
  for (const DType dtype : {kFloat64, kFloat32}) {
    for (const auto& [name, f] : lines) {
      const Tensor x = golden.get("x", dtype).requires_grad_();
      check_layer(golden, name, dtype, [&, &call = f] { return call(x); }, {{"x", x}});
    }
    for (const auto& [name, size] :
         {std::pair{"adaptive_max2d", Size2(3, 4)}, {"adaptive_max2d_larger", Size2(7, 2)}}) {
      const Tensor x = golden.get("image", dtype).requires_grad_();
      check_layer(golden, name, dtype, [&, s = size] { return nn::AdaptiveMaxPool2d(s)(x); }, {{"image", x}});
    }
  }
  const auto [values, places] = max_pool1d_with_indices(make::arange(0, 6, 1, kFloat32).view({1, 6}), 3);
  BOOST_TEST(places.to_vector<int64_t>() == (std::vector<int64_t>{2, 5}));
  BOOST_CHECK_EXCEPTION(max_pool1d(make::ones({3}), 2), ShapeError, says("max_pool1d", "[3]"));
  BOOST_CHECK_EXCEPTION(adaptive_max_pool2d(make::ones({1, 2, 2}), 0), Error, says("adaptive_max_pool2d", "output"));
  BOOST_TEST(nn::MaxPool1d(2).to_string() ==
             "MaxPool1d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=false)");
}

BOOST_AUTO_TEST_CASE(pooling_of_sequences_has_both_derivatives) {
  const auto of = [](auto f) { return [f](const std::vector<Tensor>& in) { return std::vector<Tensor>{f(in[0])}; }; };
  check_derivatives("max_pool1d", of([](const Tensor& x) { return max_pool1d(x, 2, {.padding = 1}); }),
                    {distinct({2, 2, 5})});
  check_derivatives("avg_pool1d", of([](const Tensor& x) { return avg_pool1d(x, 3, {.stride = 1}); }),
                    {draw({2, 2, 5})});
  check_derivatives("adaptive_max_pool2d", of([](const Tensor& x) {
                      return adaptive_max_pool2d(x, {2, 3});
                    }),
                    {distinct({2, 3, 4})});
  check_derivatives("adaptive_avg_pool1d", of([](const Tensor& x) { return adaptive_avg_pool1d(x, 3); }),
                    {draw({2, 4})});
}

BOOST_AUTO_TEST_CASE(random_slopes_lie_within_their_bounds) {
  Generator generator(test_seed());
  const nn::RReLU layer(0.25, 0.5, generator);
  const Tensor x = make::full({1000}, -1, kFloat64).requires_grad_();
  const Tensor y = layer(x);
  BOOST_TEST(y.max().item<double>() <= -0.25);
  BOOST_TEST(y.min().item<double>() >= -0.5);
  BOOST_TEST(std::abs(y.mean().item<double>() + 0.375) < 0.02);
  BOOST_TEST(!raw::equal(y.detach(), layer(x).detach()));
  y.sum().backward();
  BOOST_TEST(raw::equal(x.grad(), y.detach().neg()));  // each has its own slope
  const Tensor positive = make::full({3}, 2, kFloat64);
  BOOST_TEST(raw::equal(layer(positive), positive));
  BOOST_TEST(layer.to_string() == "RReLU(lower=0.25, upper=0.5)");
  BOOST_CHECK_EXCEPTION(nn::RReLU(0.5, 0.25), Error, says("RReLU", "0.5", "0.25"));
}

BOOST_AUTO_TEST_SUITE_END()
