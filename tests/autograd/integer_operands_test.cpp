// Operations of networks on integers, beside PyTorch 2.15's results.
#include <boost/test/unit_test.hpp>
#include <cmath>

#include "tendril/autograd/ops/activation.h"
#include "tendril/autograd/ops/conv.h"
#include "tendril/autograd/ops/interpolate.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/autograd/ops/pool.h"
#include "tendril/tensor/creation.h"
#include "tests/autograd/raises.h"

BOOST_AUTO_TEST_SUITE(integer_operands)

using namespace tendril;

namespace {

using Integers = std::vector<int64_t>;
constexpr auto per_element = boost::test_tools::per_element();
const DType kIntegers[] = {kInt64, kInt32, kUInt8};
Integers integers(const Tensor& x) { return x.to_vector<int64_t>(); }
/// (step i) mod `modulus` + shift, in row-major order.
Tensor pattern(const Dims& sizes, int64_t step, int64_t modulus, int64_t shift) {
  return ((arange(numel_of(sizes)) * step) % modulus + shift).view(sizes);
}
Tensor small() { return tensor({3, -7, 5, 1, -2, 8, -9, 4, 6, -1, 2, -3}).view({1, 3, 4}); }

}  // namespace

BOOST_AUTO_TEST_CASE(convolutions_of_integers_are_exact) {
  const Tensor x = pattern({2, 4, 5, 4}, 7, 11, -5), w = pattern({6, 2, 3, 2}, 5, 7, -3), bias = arange(6);
  const ConvGeometry g{.stride = {2, 1}, .padding = {1, 2}, .dilation = {1, 2}, .groups = 2};
  const Tensor y = conv2d(x, w, bias, g);
  BOOST_TEST((y.sizes() == Dims{2, 6, 3, 6}));
  BOOST_TEST(y.dtype() == kInt64);
  BOOST_TEST(y.sum().item<int64_t>() == 691);
  BOOST_TEST((y.flatten() * arange(y.numel())).sum().item<int64_t>() == 86026);
  BOOST_TEST(integers(conv2d_relu(x, w, bias, g)) == integers(y.relu()), per_element);
  BOOST_TEST(integers(conv2d(x[0], w, bias, g)) == integers(y[0]), per_element);
  BOOST_TEST(
      integers(conv1d(arange(6).view({1, 1, 6}), tensor({{{1, -2, 3}}}), tensor({10}))) == (Integers{14, 16, 18, 20}),
      per_element);
  const Tensor bytes = (arange(9) * 9).to(kUInt8).view({1, 1, 3, 3});
  const Tensor sums = conv2d(bytes, full({1, 1, 2, 2}, 9, kUInt8));
  BOOST_TEST(sums.dtype() == kUInt8);
  BOOST_TEST(integers(sums) == (Integers{136, 204, 84, 152}), per_element);
  const Tensor large = full({1, 1, 1, 1}, (int64_t{1} << 60) + 1, kInt64);
  BOOST_TEST(conv2d(large, ones({1, 1, 1, 1}, kInt64)).item<int64_t>() == (int64_t{1} << 60) + 1);
  CHECK_RAISES(DTypeError, "conv2d: x has dtype bool, expected a floating one or integers", conv2d(x > 0, w > 0));
  CHECK_RAISES(DTypeError, "conv1d: x has dtype bool", conv1d(x[0] > 0, w[0] > 0));
  CHECK_RAISES(DTypeError, "conv_transpose2d: x has dtype int64, expected a floating one", conv_transpose2d(x, w));
}

BOOST_AUTO_TEST_CASE(max_pools_of_integers_are_exact) {
  const auto [values, places] = max_pool2d_with_indices(small(), 2, {.stride = 1, .padding = 1});
  BOOST_TEST(integers(values) == (Integers{3, 3, 5, 5, 1, 3, 8, 8, 5, 4, 6, 8, 8, 4, 4, 6, 6, 2, 2, -3}), per_element);
  BOOST_TEST(integers(places) == (Integers{0, 0, 2, 2, 3, 0, 5, 5, 2, 7, 8, 5, 5, 7, 7, 8, 8, 10, 10, 11}),
             per_element);
  const auto [least, where] =
      max_pool2d_with_indices(full({1, 2, 2}, INT64_MIN, kInt64), 2, {.stride = 1, .padding = 1});
  BOOST_TEST(integers(least) == Integers(9, INT64_MIN), per_element);
  BOOST_TEST(integers(where) == (Integers{0, 0, 1, 0, 0, 1, 2, 2, 3}), per_element);
  for (const DType dtype : kIntegers) {
    const Tensor x = tensor({0, 7, 3, 2, 9, 1}).to(dtype), pooled = max_pool1d(x.view({1, 6}), 2);
    BOOST_TEST(pooled.dtype() == dtype);
    BOOST_TEST(integers(pooled) == (Integers{7, 3, 9}), per_element);
    BOOST_TEST(integers(adaptive_max_pool1d(x.view({1, 6}), 3)) == (Integers{7, 3, 9}), per_element);
  }
  const Tensor rows = pattern({2, 3, 6, 6}, 13, 29, -9);
  BOOST_TEST(integers(max_pool2d(rows.to(MemoryFormat::channels_last), 3)) == integers(max_pool2d(rows, 3)),
             per_element);
  BOOST_TEST(integers(max_pool2d(rows, 3)) == integers(max_pool2d(rows.to(kFloat64), 3).to(kInt64)), per_element);
  CHECK_RAISES(DTypeError, "max_pool2d: x has dtype bool, expected numbers", max_pool2d(rows > 0, 2));
}

BOOST_AUTO_TEST_CASE(means_of_integers_lose_their_fractions) {
  const Tensor x = small();
  BOOST_TEST(integers(avg_pool2d(x, 2, {.stride = 1, .padding = 1})) ==
                 (Integers{0, -1, 0, 1, 0, 0, 0, 0, 0, 1, 1, 2, 0, -1, 0, 1, 1, 0, 0, 0}),
             per_element);
  BOOST_TEST(integers(avg_pool2d(x, 2, {.stride = 1, .padding = 1, .count_include_pad = false})) ==
                 (Integers{3, -2, -1, 3, 1, 0, 0, 0, 0, 2, 2, 2, 0, -1, 0, 6, 2, 0, 0, -3}),
             per_element);
  BOOST_TEST(integers(avg_pool2d(x * 5, 2, {.divisor_override = -3})) ==
                 integers(((x[0].narrow(0, 0, 2) * 5).view({2, 2, 2}).sum({0, 2}).to(kFloat64) / -3.0).to(kInt64)),
             per_element);
  const int64_t large = int64_t{1} << 62;
  BOOST_TEST(
      integers(avg_pool2d(tensor({large + 1, large + 3}).view({1, 1, 2}), 1)) == (Integers{large + 1, large + 3}),
      per_element);
  // 49 / 49 is 1, whatever 1.0 / 49 is.
  BOOST_TEST(integers(avg_pool2d(ones({1, 49, 49}, kInt64), 49)) == Integers{1}, per_element);
  for (const DType dtype : kIntegers) {
    const Tensor means = avg_pool1d(tensor({{1, 2, 4, 5}}).to(dtype), 2);
    BOOST_TEST(means.dtype() == dtype);
    BOOST_TEST(integers(means) == (Integers{1, 4}), per_element);
  }
  CHECK_RAISES(DTypeError, "avg_pool1d: x has dtype bool, expected numbers", avg_pool1d(x[0] > 0, 2));
  CHECK_RAISES(DTypeError, "adaptive_avg_pool2d: x has dtype int64, expected a floating one",
               adaptive_avg_pool2d(x, 1));
}

BOOST_AUTO_TEST_CASE(images_of_bytes_are_interpolated) {
  const Tensor x = (arange(12) * 23).to(kUInt8).view({1, 1, 3, 4});
  const auto resized = [&](InterpolateMode mode, const Tensor& of) {
    return interpolate(of, {.size = Dims{5, 7}, .mode = mode});
  };
  BOOST_TEST(integers(resized(InterpolateMode::nearest, x)) ==
                 (Integers{0,   0,   23,  23, 46, 46,  69,  0,   0,   23,  23,  46,  46,  69,  92,  92,  115, 115,
                           138, 138, 161, 92, 92, 115, 115, 138, 138, 161, 184, 184, 207, 207, 230, 230, 253}),
             per_element);
  const Integers bilinear = {0,   8,   21,  35,  48,  61,  69,  37,  45,  58,  72,  85,  98,  106, 92,  100, 113, 127,
                             140, 153, 161, 147, 155, 168, 182, 195, 208, 216, 184, 192, 205, 219, 232, 245, 253};
  const Integers bicubic = {0,   0,   12,  26,  39,  54,  62,  28,  35,  50,  64,  77,  92,  100, 90,  98,  113, 127,
                            140, 155, 163, 153, 161, 176, 190, 203, 218, 226, 191, 199, 214, 228, 241, 255, 255};
  for (const auto& [mode, expected] :
       {std::pair(InterpolateMode::bilinear, bilinear), {InterpolateMode::bicubic, bicubic}}) {
    const Tensor got = resized(mode, x);
    BOOST_TEST(got.dtype() == kUInt8);
    for (std::size_t i = 0; i < expected.size(); ++i) {  // PyTorch rounds in between
      BOOST_TEST(std::abs(integers(got)[i] - expected[i]) <= 1, i << " of " << name_of(mode));
    }
  }
  for (const DType dtype : {kInt64, kInt32, kBool}) {  // labels
    const Tensor labels = x.to(dtype), got = resized(InterpolateMode::nearest_exact, labels);
    BOOST_TEST(got.dtype() == dtype);
    BOOST_TEST(integers(got) == integers(resized(InterpolateMode::nearest_exact, labels.to(kFloat64)).to(dtype)),
               per_element);
  }
  CHECK_RAISES(DTypeError, "interpolate: x has dtype int64, expected a floating one or uint8 for mode bilinear",
               resized(InterpolateMode::bilinear, x.to(kInt64)));
}

BOOST_AUTO_TEST_CASE(hardtanh_and_threshold_keep_integers) {
  const Tensor x = tensor({-3, -1, 0, 1, 2, 5}), bytes = tensor({0, 1, 2, 5}, kUInt8);
  BOOST_TEST(integers(hardtanh(x)) == (Integers{-1, -1, 0, 1, 1, 1}), per_element);
  BOOST_TEST(integers(hardtanh(x, -1.5, 2.5)) == (Integers{-1, -1, 0, 1, 2, 2}), per_element);
  BOOST_TEST(integers(hardtanh(x, -HUGE_VAL, HUGE_VAL)) == integers(x), per_element);
  BOOST_TEST(integers(hardtanh(bytes)) == (Integers{0, 1, 1, 1}), per_element);
  BOOST_TEST(integers(threshold(x, 0, 7)) == (Integers{7, 7, 7, 1, 2, 5}), per_element);
  BOOST_TEST(integers(threshold(x, -0.5, 7.9)) == (Integers{7, 7, 7, 1, 2, 5}), per_element);
  BOOST_TEST(integers(threshold(bytes, 1, -1)) == (Integers{255, 255, 2, 5}), per_element);
  for (const DType dtype : kIntegers) {
    BOOST_TEST(hardtanh(bytes.to(dtype)).dtype() == dtype);
    BOOST_TEST(threshold(bytes.to(dtype), 1, 2).dtype() == dtype);
  }
  CHECK_RAISES(DTypeError, "hardtanh: x has dtype bool", hardtanh(x > 0));
  CHECK_RAISES(DTypeError, "threshold: x has dtype bool", threshold(x > 0, 0, 1));
  CHECK_RAISES(DTypeError, "threshold: the value 300 does not convert to uint8", threshold(bytes, 1, 300));
  CHECK_RAISES(Error, "threshold: got nan", threshold(bytes, NAN, 3));
}

BOOST_AUTO_TEST_CASE(logsumexp_of_integers_is_float32) {
  for (const DType dtype : {kInt64, kInt32, kUInt8}) {
    const Tensor y = tensor({0, 1, 2, 5}, dtype).logsumexp(0);
    BOOST_TEST(y.dtype() == kFloat32);
    BOOST_TEST(y.item<double>() == 5.07217264175415, boost::test_tools::tolerance(1e-6));
  }
  BOOST_TEST(tensor({true, false}).logsumexp(0).item<double>() == std::log(1 + std::exp(1.0)),
             boost::test_tools::tolerance(1e-6));
}

BOOST_AUTO_TEST_SUITE_END()
