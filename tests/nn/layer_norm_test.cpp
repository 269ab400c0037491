#include "tendril/nn/layer_norm.h"

#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

#include "tendril/autograd/backward.h"
#include "tendril/autograd/ops/layer_norm.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/nn/batch_norm.h"
#include "tendril/tensor/raw.h"
#include "tests/errors.h"
#include "tests/make.h"
#include "tests/nn/layer_golden.h"
#include "tests/seed.h"

BOOST_AUTO_TEST_SUITE(layer_norm)

using tendril::Error;
using tendril::ShapeError;
using tendril::Tensor;
using tendril::testing::difference;
using tendril::testing::says;
using tendril::testing::test_seed;
namespace nn = tendril::nn;
namespace make = tendril::make;
namespace raw = tendril::raw;

namespace {

const tendril::testing::Golden& golden() {
  static const tendril::testing::Golden file(TENDRIL_TEST_DATA "/layer_norm.txt");
  return file;
}

/// Gives the layer golden parameters and compares value and gradients.
template <class Layer>
void check(const std::string& name, tendril::DType dtype, Layer&& layer) {
  std::vector<std::pair<std::string, Tensor>> leaves = {{"x", golden().get(name + ".x", dtype).requires_grad_()}};
  for (auto& [key, parameter] : layer.named_parameters()) {
    raw::copy_(parameter, golden().get(name + "." + key, dtype));
    leaves.emplace_back(key, parameter);
  }
  check_layer(
      golden(), name, dtype, [&] { return layer(leaves[0].second); }, leaves);
}

}  // namespace

BOOST_AUTO_TEST_CASE(values_and_gradients_equal_pytorchs) {
  for (const tendril::DType dtype : {tendril::kFloat64, tendril::kFloat32}) {
    check("layer", dtype, nn::LayerNorm(4, {.dtype = dtype}));
    check("layer_two", dtype, nn::LayerNorm(tendril::Dims{3, 4}, {.eps = 0.1, .dtype = dtype}));
    check("layer_plain", dtype, nn::LayerNorm(4, {.elementwise_affine = false, .dtype = dtype}));
    check("layer_no_bias", dtype, nn::LayerNorm(5, {.bias = false, .dtype = dtype}));
    check("layer_long", dtype, nn::LayerNorm(300, {.dtype = dtype}));
    check("rms", dtype, nn::RMSNorm(4, {.dtype = dtype}));
    check("rms_eps", dtype, nn::RMSNorm(tendril::Dims{3, 4}, {.eps = 0.1, .dtype = dtype}));
    check("group", dtype, nn::GroupNorm(2, 6, {.dtype = dtype}));
    check("group_plain", dtype, nn::GroupNorm(3, 6, {.eps = 0.1, .affine = false, .dtype = dtype}));
    check("batch1d", dtype, nn::BatchNorm1d(3, {.dtype = dtype}));
    check("batch1d_long", dtype, nn::BatchNorm1d(3, {.eps = 0.1, .dtype = dtype}));
  }
}

/// Many lines, few and many elements, no parameters, one of them: the fused pass against the recorded formula.
BOOST_AUTO_TEST_CASE(the_pass_that_is_not_recorded_gives_what_the_recorded_formula_gives) {
  tendril::Generator generator(test_seed());
  const auto noise = [&](const tendril::Dims& sizes) {
    Tensor x = make::empty(sizes, tendril::kFloat64);
    raw::normal_(x, 0.5, 2, generator);
    return x;
  };
  for (const auto& [lines, length] :
       std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {700, 33}, {3, 5000}, {129, 256}}) {
    for (int given = 0; given < 4; ++given) {
      const Tensor x = noise({lines, length}).requires_grad_(), g = noise({lines, length});
      std::vector<Tensor> leaves = {x};
      Tensor weight, bias;
      if (given & 1) leaves.push_back(weight = noise({length}).requires_grad_());
      if (given & 2) leaves.push_back(bias = noise({length}).requires_grad_());
      for (const bool centred : {true, false}) {
        if (!centred && bias.defined()) continue;
        const Tensor y =
            centred ? tendril::layer_norm(x, {length}, weight, bias, 0.1) : tendril::rms_norm(x, {length}, weight, 0.1);
        const auto fused = tendril::autograd::grad({y}, leaves, {g}, {.retain_graph = true});
        const auto recorded = tendril::autograd::grad({y}, leaves, {g}, {.create_graph = true});
        for (std::size_t i = 0; i < leaves.size(); ++i) {
          BOOST_TEST(difference(fused[i], recorded[i].detach(), 1e-9, 1e-9) == "",
                     lines << " by " << length << ": " << i);
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(they_have_pytorchs_parameters_and_words) {
  BOOST_TEST(nn::LayerNorm(4).to_string() == "LayerNorm([4], eps=1e-05, elementwise_affine=true)");
  BOOST_TEST(nn::RMSNorm(4).to_string() == "RMSNorm([4], eps=none, elementwise_affine=true)");
  BOOST_TEST(nn::GroupNorm(2, 4).to_string() == "GroupNorm(2, 4, eps=1e-05, affine=true)");
  BOOST_TEST(nn::BatchNorm1d(3).to_string() ==
             "BatchNorm1d(3, eps=1e-05, momentum=0.1, affine=true, track_running_stats=true)");
  nn::LayerNorm layer(3);
  BOOST_TEST(raw::equal(layer.weight, make::ones({3})));
  BOOST_TEST(raw::equal(layer.bias, make::zeros({3})));
}

BOOST_AUTO_TEST_CASE(batch_norm_of_features_keeps_statistics) {
  nn::BatchNorm1d layer(2, {.momentum = 0.5});
  layer(make::from_data(std::vector<float>{0, 1, 4, 3}, {2, 2}));
  BOOST_TEST(raw::equal(layer.running_mean, make::from_data(std::vector<float>{1, 1}, {2})));
  layer.eval();
  BOOST_TEST((layer(make::ones({1, 2})).sizes() == tendril::Dims{1, 2}));
}

BOOST_AUTO_TEST_CASE(what_does_not_fit_is_refused) {
  BOOST_CHECK_EXCEPTION(nn::LayerNorm(0), Error, says("LayerNorm", "normalized_shape", "0"));
  BOOST_CHECK_EXCEPTION(nn::LayerNorm(2, {.eps = -1}), Error, says("LayerNorm", "eps", "-1"));
  BOOST_CHECK_EXCEPTION(nn::GroupNorm(2, 3), Error, says("GroupNorm", "num_channels", "3", "2"));
  BOOST_CHECK_EXCEPTION(nn::LayerNorm(3)(make::ones({2, 4})), ShapeError, says("layer_norm", "[2, 4]", "[3]"));
  BOOST_CHECK_EXCEPTION(nn::LayerNorm(3)(make::ones({2, 3}, tendril::kFloat64)), tendril::DTypeError,
                        says("layer_norm", "weight", "float32", "float64"));
  BOOST_CHECK_EXCEPTION(nn::GroupNorm(2, 4)(make::ones({2, 6})), ShapeError, says("GroupNorm", "[2, 6]", "4"));
  BOOST_CHECK_EXCEPTION(nn::BatchNorm1d(3)(make::ones({2, 3, 4, 4})), ShapeError, says("BatchNorm1d", "[2, 3, 4, 4]"));
  BOOST_CHECK_EXCEPTION(tendril::group_norm(make::ones({2, 3}), 2), ShapeError, says("group_norm", "[2, 3]", "2"));
  BOOST_CHECK_EXCEPTION(tendril::layer_norm(make::ones({2, 3}, tendril::kInt64), {3}), tendril::DTypeError,
                        says("layer_norm", "int64"));
}

BOOST_AUTO_TEST_SUITE_END()
