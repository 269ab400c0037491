#include "tendril/nn/pooling.h"
#include "tendril/tensor/raw.h"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <string>

#include "tests/errors.h"
#include "tests/make.h"
#include "tests/nn/layer_golden.h"
#include "tests/seed.h"

BOOST_AUTO_TEST_SUITE(pooling)

using tendril::DTypeError;
using tendril::Error;
using tendril::ShapeError;
using tendril::Tensor;
using tendril::testing::says;
namespace nn = tendril::nn;
namespace make = tendril::make;
namespace raw = tendril::raw;
using namespace tendril;
using tendril::testing::test_seed;

BOOST_AUTO_TEST_CASE(values_and_gradients_equal_pytorchs) {
  const tendril::testing::Golden golden(TENDRIL_TEST_DATA "/pooling.txt");
  const std::vector<std::pair<std::string, std::function<Tensor(const Tensor&)>>> cases = {
      {"max", [](const Tensor& x) { return nn::MaxPool2d(2)(x); }},
      {"max_resnet", [](const Tensor& x) { return nn::MaxPool2d(3, {.stride = 2, .padding = 1})(x); }},
      {"max_options",
       [](const Tensor& x) {
         return max_pool2d(x, {3, 2}, {.stride = {1, 2}, .padding = {1, 0}, .dilation = {2, 1}, .ceil_mode = true});
       }},
      {"avg", [](const Tensor& x) { return nn::AvgPool2d(2)(x); }},
      {"avg_options",
       [](const Tensor& x) {
         return avg_pool2d(x, {3, 2}, {.stride = 2, .padding = 1, .ceil_mode = true});
       }},
      {"avg_inside",
       [](const Tensor& x) {
         return avg_pool2d(x, 3, {.stride = 2, .padding = 1, .ceil_mode = true, .count_include_pad = false});
       }},
      {"avg_divisor", [](const Tensor& x) { return avg_pool2d(x, 3, {.stride = 1, .divisor_override = 5}); }},
      {"adaptive", [](const Tensor& x) { return nn::AdaptiveAvgPool2d(1)(x); }},
      {"adaptive_uneven",
       [](const Tensor& x) {
         return adaptive_avg_pool2d(x, {3, 4});
       }},
      {"adaptive_larger", [](const Tensor& x) {
         return adaptive_avg_pool2d(x, {9, 2});
       }}};
  for (DType dtype : {kFloat64, kFloat32}) {
    for (const auto& [name, function] : cases) {
      Tensor x = golden.get("x", dtype).requires_grad_();
      check_layer(golden, name, dtype, [&, &f = function] { return f(x); }, {{"x", x}});
    }
  }
  const Tensor x = golden.get("x");
  BOOST_TEST(raw::equal(std::get<1>(max_pool2d_with_indices(x, 2)), golden.get("max.indices")));
  BOOST_TEST(raw::equal(std::get<1>(max_pool2d_with_indices(x, 3, {.stride = 2, .padding = 1})),
                        golden.get("max_resnet.indices")));
}

BOOST_AUTO_TEST_CASE(a_nan_is_the_maximum) {
  Tensor x = make::zeros({1, 2, 2});
  raw::fill_(raw::as_strided(x, {}, {}, 1), std::numeric_limits<float>::quiet_NaN());
  const auto [value, index] = max_pool2d_with_indices(x, 2);
  BOOST_TEST(std::isnan(value.item<float>()));
  BOOST_TEST(index.item<int64_t>() == 1);
}

/// The largest of each window of one plane and its place, by the definition.
std::pair<std::vector<float>, std::vector<int64_t>> largest_by_definition(const std::vector<float>& x, int64_t h,
                                                                          int64_t w, Size2 count, Size2 kernel,
                                                                          const MaxPoolOptions& o) {
  std::vector<float> values;
  std::vector<int64_t> places;
  for (int64_t i = 0; i < count.h; ++i) {
    for (int64_t j = 0; j < count.w; ++j) {
      float best = -std::numeric_limits<float>::infinity();
      int64_t at = -1;
      for (int64_t a = 0; a < kernel.h; ++a) {
        for (int64_t b = 0; b < kernel.w; ++b) {
          const int64_t r = i * o.stride.h - o.padding.h + a * o.dilation.h;
          const int64_t c = j * o.stride.w - o.padding.w + b * o.dilation.w;
          if (r < 0 || r >= h || c < 0 || c >= w) continue;
          const float value = x[static_cast<std::size_t>(r * w + c)];
          if (at < 0 || value > best || value != value) best = value, at = r * w + c;
        }
      }
      values.push_back(best);
      places.push_back(at);
    }
  }
  return {values, places};
}

BOOST_AUTO_TEST_CASE(maxima_and_their_gradients_are_those_of_the_definition) {
  std::mt19937 dice(test_seed());
  const auto roll = [&](int64_t low, int64_t high) {
    return low + static_cast<int64_t>(dice() % static_cast<unsigned>(high - low + 1));
  };
  for (int round = 0; round < 150; ++round) {
    const Size2 kernel(roll(1, 4), roll(1, 4));
    const MaxPoolOptions options{.stride = {roll(1, 3), roll(1, 3)},
                                 .padding = {kernel.h / 2, kernel.w / 2},
                                 .dilation = {roll(1, 2), roll(1, 2)}};
    const int64_t h = roll(8, 12), w = round % 10 == 0 ? roll(250, 600) : roll(8, 40);
    std::vector<float> numbers;
    for (int64_t i = 0; i < h * w; ++i) {
      numbers.push_back(roll(0, 40) == 0 ? NAN : static_cast<float>(roll(-9, 9)));
    }
    for (const DType dtype : {kFloat32, kFloat64}) {
      Tensor x = raw::cast(make::from_data(numbers, {1, 1, h, w}), dtype).requires_grad_();
      const auto [value, index] = max_pool2d_with_indices(x, kernel, options);
      const auto [values, places] =
          largest_by_definition(numbers, h, w, Size2(value.size(2), value.size(3)), kernel, options);
      BOOST_TEST(index.to_vector<int64_t>() == places, boost::test_tools::per_element());
      const std::vector<float> got = value.to_vector<float>();
      for (std::size_t i = 0; i < values.size(); ++i) {
        BOOST_TEST((got[i] == values[i] || (std::isnan(got[i]) && std::isnan(values[i]))));
      }
      std::vector<float> expected(numbers.size(), 0);
      const Tensor g = raw::cast(make::arange(1, value.numel() + 1), dtype).reshape(value.sizes());
      for (std::size_t i = 0; i < places.size(); ++i) {
        expected[static_cast<std::size_t>(places[i])] += static_cast<float>(i + 1);
      }
      value.backward(g);
      BOOST_TEST(x.grad().to_vector<float>() == expected, boost::test_tools::per_element());
    }
  }
}

BOOST_AUTO_TEST_CASE(of_minus_infinities_one_is_the_maximum) {
  const auto [value, index] =
      max_pool2d_with_indices(make::full({1, 3, 3}, -std::numeric_limits<double>::infinity()), 3, {.padding = 1});
  BOOST_TEST(value.item<float>() == -std::numeric_limits<float>::infinity());
  BOOST_TEST(index.item<int64_t>() == 0);
}

BOOST_AUTO_TEST_CASE(the_only_window_may_hang_over_the_end) {
  // Values by PyTorch 2.15.
  const Tensor x = make::arange(1, 5, 1, kFloat32).reshape({1, 2, 2});
  for (const int stride : {2, 3}) {
    const auto [value, index] = max_pool2d_with_indices(x, 3, {.stride = stride, .ceil_mode = true});
    BOOST_TEST((value.sizes() == Dims{1, 1, 1}));
    BOOST_TEST(value.item<float>() == 4);
    BOOST_TEST(index.item<int64_t>() == 3);
    BOOST_TEST(avg_pool2d(x, 3, {.stride = stride, .ceil_mode = true}).item<float>() == 2.5F);
    BOOST_TEST(avg_pool2d(x, 3, {.stride = stride, .ceil_mode = true, .divisor_override = 2}).item<float>() == 5);
  }
  const AvgPoolOptions padded{.stride = 3, .padding = 1, .ceil_mode = true};
  BOOST_TEST(avg_pool2d(x, 4, padded).item<float>() == 0.625F);
  BOOST_TEST(max_pool2d(x, 2, {.stride = 3, .dilation = 2, .ceil_mode = true}).item<float>() == 1);
  BOOST_CHECK_EXCEPTION(max_pool2d(x, 3, {.stride = 1, .ceil_mode = true}), ShapeError, says("does not fit"));
  BOOST_CHECK_EXCEPTION(max_pool2d(make::ones({1, 1, 1}), 3, {.stride = 2, .ceil_mode = true}), ShapeError,
                        says("does not fit"));
}

BOOST_AUTO_TEST_CASE(they_print_what_they_do) {
  BOOST_TEST(nn::MaxPool2d(3, {.stride = 2, .padding = 1}).to_string() ==
             "MaxPool2d(kernel_size=[3, 3], stride=[2, 2], padding=[1, 1], dilation=[1, 1], ceil_mode=false)");
  BOOST_TEST(nn::AvgPool2d(2).to_string() == "AvgPool2d(kernel_size=[2, 2], stride=[2, 2], padding=[0, 0])");
  BOOST_TEST(nn::AdaptiveAvgPool2d({1, 2}).to_string() == "AdaptiveAvgPool2d(output_size=[1, 2])");
}

BOOST_AUTO_TEST_CASE(what_does_not_fit_is_refused) {
  const Tensor x = make::ones({2, 3, 4, 4});
  BOOST_CHECK_EXCEPTION(max_pool2d(x, 5), ShapeError, says("max_pool2d", "[5, 5]", "[2, 3, 4, 4]"));
  BOOST_CHECK_EXCEPTION(max_pool2d(make::ones({1, 4, 2}), 2, {.padding = {0, 1}, .dilation = {1, 3}}), ShapeError,
                        says("max_pool2d", "[1, 3]", "nothing but the padding", "[1, 4, 2]"));
  BOOST_TEST((max_pool2d(make::ones({1, 4, 3}), 2, {.padding = {0, 1}, .dilation = {1, 3}}).sizes() == Dims{1, 2, 1}));
  BOOST_CHECK_EXCEPTION(max_pool2d(make::ones({4, 4}), 2), ShapeError, says("max_pool2d", "[4, 4]"));
  BOOST_CHECK_EXCEPTION(max_pool2d(x, 3, {.padding = 2}), Error, says("padding", "[2, 2]", "half"));
  BOOST_CHECK_EXCEPTION(max_pool2d(x, 0), Error, says("kernel", "[0, 0]"));
  BOOST_CHECK_EXCEPTION(avg_pool2d(x, 2, {.stride = {1, 0}}), Error, says("avg_pool2d", "stride", "[1, 0]"));
  BOOST_CHECK_EXCEPTION(avg_pool2d(x, 2, {.divisor_override = 0}), Error, says("divisor_override"));
  BOOST_CHECK_EXCEPTION(adaptive_avg_pool2d(x, -1), Error, says("adaptive_avg_pool2d", "[-1, -1]"));
  const int64_t most = std::numeric_limits<int64_t>::max();
  BOOST_CHECK_EXCEPTION(adaptive_avg_pool2d(x, most), Error, says("adaptive_avg_pool2d", "fit memory"));
  BOOST_CHECK_EXCEPTION(tendril::adaptive_max_pool2d_with_indices(x, most), Error,
                        says("adaptive_max_pool2d", "memory"));
  BOOST_CHECK_EXCEPTION(adaptive_avg_pool2d(make::ones({2, 3, 0, 4}), 1), ShapeError, says("[2, 3, 0, 4]"));
  BOOST_CHECK_EXCEPTION(avg_pool2d(raw::cast(x, kBool), 2), DTypeError, says("avg_pool2d", "bool"));
  BOOST_CHECK_EXCEPTION(max_pool2d(Tensor(), 2), Error, says("undefined"));
}

BOOST_AUTO_TEST_SUITE_END()
