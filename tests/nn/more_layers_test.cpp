// Layers made of others' operations: sequences, recurrence, attention, resizing.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "tendril/autograd/backward.h"
#include "tendril/autograd/ops/attention.h"
#include "tendril/autograd/ops/interpolate.h"
#include "tendril/autograd/ops/join.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/autograd/ops/pool.h"
#include "tendril/nn/activation.h"
#include "tendril/nn/conv.h"
#include "tendril/nn/rnn.h"
#include "tendril/nn/transformer.h"
#include "tendril/nn/upsample.h"
#include "tendril/tensor/raw.h"
#include "tests/errors.h"
#include "tests/make.h"
#include "tests/nn/layer_golden.h"

BOOST_AUTO_TEST_SUITE(more_layers)

using tendril::Dims;
using tendril::DType;
using tendril::Error;
using tendril::InterpolateMode;
using tendril::ShapeError;
using tendril::Size2;
using tendril::Tensor;
using tendril::testing::Golden;
using tendril::testing::says;
namespace nn = tendril::nn;
namespace make = tendril::make;
namespace raw = tendril::raw;

namespace {

using Leaves = std::vector<std::pair<std::string, Tensor>>;

/// golden_layers.py's with_parameters: gives the layer its parameters, and compares `call(layer, inputs)`.
template <class Layer, class Call>
void check(const Golden& golden, const std::string& name, DType dtype, Layer&& layer,
           const std::vector<std::string>& inputs, const Call& call) {
  Leaves leaves;
  std::vector<Tensor> given;
  for (const std::string& input : inputs) {
    given.push_back(golden.get(name + "." + input, dtype).requires_grad_());
    leaves.emplace_back(input, given.back());
  }
  for (auto& [key, parameter] : layer.named_parameters()) {
    raw::copy_(parameter, golden.get(name + "." + key, dtype));
    leaves.emplace_back(key, parameter);
  }
  check_layer(
      golden, name, dtype, [&] { return call(layer, given); }, leaves, 5);
}

Tensor flat(const std::vector<Tensor>& tensors) {
  std::vector<Tensor> parts;
  for (const Tensor& tensor : tensors) parts.push_back(tensor.flatten());
  return tendril::cat(parts);
}

Tensor as_mask(const Tensor& integers) { return integers.ne(0); }

}  // namespace

BOOST_AUTO_TEST_CASE(convolutions_of_sequences_equal_pytorchs) {
  const Golden golden(TENDRIL_TEST_DATA "/conv1d.txt");
  const auto call = [](auto& layer, const std::vector<Tensor>& in) { return layer(in[0]); };
  for (const DType dtype : {tendril::kFloat64, tendril::kFloat32}) {
    check(golden, "plain", dtype, nn::Conv1d(3, 4, 3, {.dtype = dtype}), {"x"}, call);
    check(golden, "options", dtype,
          nn::Conv1d(4, 6, 3, {.stride = 2, .padding = 2, .dilation = 2, .groups = 2, .bias = false, .dtype = dtype}),
          {"x"}, call);
    check(golden, "unbatched", dtype, nn::Conv1d(2, 3, 2, {.padding = 1, .dtype = dtype}), {"x"}, call);
  }
  BOOST_TEST(nn::Conv1d(2, 4, 3, {.padding = 1}).to_string() == "Conv1d(2, 4, kernel_size=3, stride=1, padding=1)");
  BOOST_CHECK_EXCEPTION(nn::Conv1d(2, 4, 3)(make::ones({1, 3, 5})), ShapeError, says("Conv1d", "[1, 3, 5]", "2"));
  BOOST_CHECK_EXCEPTION(nn::Conv1d(2, 4, 0), Error, says("Conv1d", "kernel_size", "0"));
}

BOOST_AUTO_TEST_CASE(recurrent_layers_equal_pytorchs) {
  const Golden golden(TENDRIL_TEST_DATA "/rnn.txt");
  const auto call = [](auto& layer, const std::vector<Tensor>& in) {
    const auto [output, h_n] = layer(in[0], in.size() > 1 ? in[1] : Tensor());
    return flat({output, h_n});
  };
  for (const DType dtype : {tendril::kFloat64, tendril::kFloat32}) {
    const std::vector<std::pair<std::string, nn::RNNOptions>> cases = {
        {"plain", {.dtype = dtype}},
        {"no_bias", {.bias = false, .dtype = dtype}},
        {"layers", {.num_layers = 2, .batch_first = true, .dtype = dtype}},
        {"bidirectional", {.num_layers = 2, .bidirectional = true, .dtype = dtype}},
        {"unbatched", {.dtype = dtype}},
        {"relu", {.nonlinearity = nn::RNNNonlinearity::relu, .dtype = dtype}}};
    for (const auto& [name, options] : cases) {
      for (const std::string start : {"", "_zeros"}) {
        const std::vector<std::string> inputs =
            start.empty() ? std::vector<std::string>{"x", "h"} : std::vector<std::string>{"x"};
        check(golden, "rnn_" + name + start, dtype, nn::RNN(2, 3, options), inputs, call);
        if (name != "relu") check(golden, "gru_" + name + start, dtype, nn::GRU(2, 3, options), inputs, call);
      }
    }
  }
  BOOST_TEST(nn::GRU(2, 3, {.num_layers = 2}).to_string() == "GRU(2, 3, num_layers=2)");
  BOOST_CHECK_EXCEPTION(nn::GRU(2, 3)(make::ones({4, 1, 5})), ShapeError, says("GRU", "[4, 1, 5]", "2"));
  BOOST_CHECK_EXCEPTION(nn::RNN(2, 3)(make::ones({4, 1, 2}), make::ones({1, 2, 3})), ShapeError,
                        says("RNN", "h_0", "[1, 2, 3]", "[1, 1, 3]"));
  BOOST_CHECK_EXCEPTION(nn::RNN(2, 0), Error, says("RNN", "hidden_size", "0"));
}

BOOST_AUTO_TEST_CASE(attention_equals_pytorchs) {
  const Golden golden(TENDRIL_TEST_DATA "/attention.txt");
  for (const DType dtype : {tendril::kFloat64, tendril::kFloat32}) {
    const auto check_one = [&](const std::string& name, const tendril::AttentionOptions& options) {
      const Tensor q = golden.get("q", dtype).requires_grad_(), k = golden.get("k", dtype).requires_grad_(),
                   v = golden.get("v", dtype).requires_grad_();
      check_layer(golden, name, dtype, [&] { return tendril::scaled_dot_product_attention(q, k, v, options); },
                  {{"q", q}, {"k", k}, {"v", v}});
    };
    check_one("plain", {});
    check_one("causal", {.is_causal = true});
    check_one("scaled", {.scale = 0.3});
    check_one("bool_mask", {.attn_mask = as_mask(golden.get("seen"))});
    check_one("added_mask", {.attn_mask = golden.get("added", dtype)});
  }
}

BOOST_AUTO_TEST_CASE(a_query_that_sees_nothing_gets_zeros) {
  const Tensor x = make::ones({2, 3}).requires_grad_(), mask = make::zeros({2, 2}, tendril::kBool);
  const Tensor y = tendril::scaled_dot_product_attention(x, x, x, {.attn_mask = mask});
  BOOST_TEST(raw::equal(y.detach(), make::zeros({2, 3})));
  y.sum().backward();
  BOOST_TEST(raw::equal(x.grad(), make::zeros({2, 3})));
}

BOOST_AUTO_TEST_CASE(attention_of_several_heads_equals_pytorchs) {
  const Golden golden(TENDRIL_TEST_DATA "/attention.txt");
  for (const DType dtype : {tendril::kFloat64, tendril::kFloat32}) {
    const auto self_attention = [&](const nn::MultiheadAttentionMasks& masks) {
      return [masks](auto& layer, const std::vector<Tensor>& in) {
        const auto [output, weights] = layer(in[0], in[0], in[0], masks);
        return flat({output, weights});
      };
    };
    const auto cross = [](auto& layer, const std::vector<Tensor>& in) {
      const auto [output, weights] = layer(in[0], in[1], in[1] * 2.0);
      return flat({output, weights});
    };
    const nn::MultiheadAttentionOptions first{.bias = false, .batch_first = true, .dtype = dtype};
    check(golden, "mha_self", dtype, nn::MultiheadAttention(6, 2, {.dtype = dtype}), {"x"}, self_attention({}));
    check(golden, "mha_cross", dtype, nn::MultiheadAttention(6, 2, {.dtype = dtype}), {"x", "kv"}, cross);
    check(golden, "mha_first_self", dtype, nn::MultiheadAttention(6, 2, first), {"x"}, self_attention({}));
    check(golden, "mha_first_cross", dtype, nn::MultiheadAttention(6, 2, first), {"x", "kv"}, cross);
    const Tensor padding = as_mask(golden.get("padding")), hidden = as_mask(golden.get("hidden"));
    check(golden, "mha_masks_self", dtype, nn::MultiheadAttention(6, 2, {.dtype = dtype}), {"x"},
          self_attention({.key_padding_mask = padding, .attn_mask = hidden}));
    check(golden, "mha_masks_self", dtype, nn::MultiheadAttention(6, 2, {.dtype = dtype}), {"x"},
          self_attention({.key_padding_mask = padding, .is_causal = true}));
  }
}

BOOST_AUTO_TEST_CASE(encoder_layers_equal_pytorchs) {
  const Golden golden(TENDRIL_TEST_DATA "/attention.txt");
  const Tensor padding = as_mask(golden.get("padding")), hidden = as_mask(golden.get("hidden"));
  const auto call = [](auto& layer, const std::vector<Tensor>& in) { return layer(in[0]); };
  const auto masked = [&](auto& layer, const std::vector<Tensor>& in) {
    return layer(in[0], {.src_mask = hidden, .src_key_padding_mask = padding});
  };
  for (const DType dtype : {tendril::kFloat64, tendril::kFloat32}) {
    const nn::TransformerEncoderLayerOptions plain{.dim_feedforward = 8, .dropout = 0, .dtype = dtype};
    const nn::TransformerEncoderLayerOptions options{.dim_feedforward = 8,
                                                     .dropout = 0,
                                                     .activation = nn::TransformerActivation::gelu,
                                                     .layer_norm_eps = 1e-3,
                                                     .batch_first = true,
                                                     .norm_first = true,
                                                     .bias = false,
                                                     .dtype = dtype};
    check(golden, "encoder", dtype, nn::TransformerEncoderLayer(6, 2, plain), {"x"}, call);
    check(golden, "encoder_masks", dtype, nn::TransformerEncoderLayer(6, 2, plain), {"x"}, masked);
    check(golden, "encoder_options", dtype, nn::TransformerEncoderLayer(6, 2, options), {"x"}, call);
    check(golden, "encoder_options_masks", dtype, nn::TransformerEncoderLayer(6, 2, options), {"x"}, masked);
  }
}

BOOST_AUTO_TEST_CASE(an_encoder_is_its_layers) {
  nn::TransformerEncoder encoder(2, 4, 2, {.dim_feedforward = 8, .dropout = 0});
  nn::TransformerEncoder moved(std::move(encoder));
  BOOST_TEST(moved.named_parameters()[0].first == "layers.0.self_attn.in_proj_weight");
  BOOST_TEST(moved.parameters().size() == 24u);
  const Tensor x = make::ones({3, 1, 4});
  auto& list = static_cast<nn::ModuleList&>(*moved.children()[0]);
  const Tensor by_hand = list.at<nn::TransformerEncoderLayer>(1)(list.at<nn::TransformerEncoderLayer>(0)(x));
  BOOST_TEST(raw::equal(moved(x).detach(), by_hand.detach()));
  BOOST_CHECK_EXCEPTION(nn::TransformerEncoder(0, 4, 2), Error, says("TransformerEncoder", "num_layers", "0"));
}

BOOST_AUTO_TEST_CASE(an_encoders_result_may_be_normalised) {
  const Golden golden(TENDRIL_TEST_DATA "/places_and_sizes.txt");
  for (const DType dtype : {tendril::kFloat64, tendril::kFloat32}) {
    nn::TransformerEncoder encoder(2, 4, 2, {.dim_feedforward = 3, .dropout = 0, .norm_first = true, .dtype = dtype},
                                   nn::LayerNorm(4, {.eps = 1e-3, .dtype = dtype}));
    check(golden, "encoder", dtype, nn::TransformerEncoder(std::move(encoder)), {"x"},
          [](auto& layer, const std::vector<Tensor>& in) { return layer(in[0]); });
  }
  nn::TransformerEncoder encoder(1, 4, 2, {.dim_feedforward = 3, .dropout = 0}, nn::LayerNorm(4));
  BOOST_TEST(encoder.named_parameters().back().first == "norm.bias");
  const nn::TransformerEncoder other(1, 4, 2, {.dim_feedforward = 3, .dropout = 0}, nn::LayerNorm(5));
  BOOST_CHECK_EXCEPTION(other(make::ones({3, 1, 4})), ShapeError, says("layer_norm", "[5]"));
}

BOOST_AUTO_TEST_CASE(positions_are_sines_and_cosines) {
  nn::PositionalEncoding encoding(5, {.dropout = 0, .max_len = 7, .dtype = tendril::kFloat64});
  const Tensor y = encoding(make::zeros({6, 2, 5}, tendril::kFloat64));
  for (int64_t p : {0, 3, 5}) {
    for (int64_t i = 0; i < 5; ++i) {
      const double angle = static_cast<double>(p) / std::pow(10000.0, static_cast<double>(i - i % 2) / 5);
      const double expected = i % 2 == 0 ? std::sin(angle) : std::cos(angle);
      BOOST_TEST(std::abs(y[p][1][i].item<double>() - expected) < 1e-14);
    }
  }
  BOOST_TEST(encoding.named_buffers()[0].first == "pe");
  BOOST_CHECK_EXCEPTION(encoding(make::zeros({8, 1, 5}, tendril::kFloat64)), ShapeError, says("[8, 1, 5]", "7"));
  const Tensor mask = nn::generate_square_subsequent_mask(3);
  BOOST_TEST(std::isinf(mask[0][1].item<double>()));
  BOOST_TEST(mask[2][1].item<double>() == 0);
}

BOOST_AUTO_TEST_CASE(images_of_another_size_equal_pytorchs) {
  const Golden golden(TENDRIL_TEST_DATA "/upsample.txt");
  const auto bilinear = InterpolateMode::bilinear;
  const std::vector<std::pair<std::string, tendril::InterpolateOptions>> cases = {
      {"nearest_2", {.scale_factor = {{2, 2}}}},
      {"nearest_size", {.size = Dims{7, 3}}},
      {"nearest_uneven", {.scale_factor = {{1.5, 0.6}}}},
      {"bilinear_2", {.scale_factor = {{2, 2}}, .mode = bilinear}},
      {"bilinear_size", {.size = Dims{7, 3}, .mode = bilinear}},
      {"bilinear_corners", {.size = Dims{7, 9}, .mode = bilinear, .align_corners = true}},
      {"bilinear_uneven", {.scale_factor = {{1.7, 0.6}}, .mode = bilinear}},
      {"bilinear_one", {.size = Dims{1, 1}, .mode = bilinear}}};
  for (const DType dtype : {tendril::kFloat64, tendril::kFloat32}) {
    for (const auto& [name, options] : cases) {
      const Tensor x = golden.get("x", dtype).requires_grad_();
      check_layer(golden, name, dtype, [&] { return nn::Upsample(options)(x); }, {{"x", x}});
    }
  }
}

BOOST_AUTO_TEST_CASE(sequences_and_volumes_of_another_size_equal_pytorchs) {
  const Golden golden(TENDRIL_TEST_DATA "/upsample_other.txt");
  const auto exact = InterpolateMode::nearest_exact, linear = InterpolateMode::linear, all = InterpolateMode::trilinear;
  using Factors = std::vector<double>;
  const std::vector<std::pair<std::string, tendril::InterpolateOptions>> cases = {
      {"line_nearest", {.size = 7}},
      {"line_nearest_by", {.scale_factor = Factors{0.7}}},
      {"line_exact", {.size = 8, .mode = exact}},
      {"line_linear", {.size = 8, .mode = linear}},
      {"line_corners", {.size = 9, .mode = linear, .align_corners = true}},
      {"line_linear_by", {.scale_factor = Factors{1.7}, .mode = linear}},
      {"line_linear_less", {.size = 2, .mode = linear}},
      {"volume_nearest", {.size = Dims{4, 3, 2}}},
      {"volume_exact", {.scale_factor = Factors{1.6}, .mode = exact}},
      {"volume_linear", {.size = Dims{4, 3, 2}, .mode = all}},
      {"volume_all", {.size = 5, .mode = all}},
      {"volume_corners", {.size = Dims{2, 4, 6}, .mode = all, .align_corners = true}},
      {"volume_linear_by", {.scale_factor = Factors{1.5, 2, 0.6}, .mode = all}}};
  for (const DType dtype : {tendril::kFloat64, tendril::kFloat32}) {
    for (const auto& [name, options] : cases) {
      const std::string key = name.substr(0, name.find('_'));
      const Tensor x = golden.get(key, dtype).requires_grad_();
      const nn::Upsample layer(options);
      check_layer(golden, name, dtype, [&] { return layer(x); }, {{key, x}});
    }
  }
  BOOST_TEST(nn::Upsample(2, linear).to_string() == "Upsample(scale_factor=(2), mode=linear)");
}

BOOST_AUTO_TEST_CASE(a_size_may_be_asked_of_a_transposed_convolution) {
  const Golden golden(TENDRIL_TEST_DATA "/places_and_sizes.txt");
  for (const DType dtype : {tendril::kFloat64, tendril::kFloat32}) {
    check(golden, "size", dtype,
          nn::ConvTranspose2d(2, 3, {2, 3}, {.stride = {3, 2}, .padding = {1, 0}, .dtype = dtype}), {"x"},
          [](auto& layer, const std::vector<Tensor>& in) {
            return layer(in[0], Size2{7, 6});
          });
    check(golden, "size_line", dtype,
          nn::ConvTranspose1d(2, 3, 3, {.stride = 3, .padding = 1, .output_padding = 1, .dtype = dtype}), {"x"},
          [](auto& layer, const std::vector<Tensor>& in) { return layer(in[0], 12); });
  }
  const nn::ConvTranspose2d images(1, 1, 2, {.stride = 2});
  const nn::ConvTranspose1d lines(1, 1, 2, {.stride = 2});
  const Tensor image = make::ones({1, 3, 4}), line = make::ones({1, 4});
  BOOST_TEST((images(image, Size2{7, 8}).sizes() == Dims({1, 7, 8})));
  BOOST_CHECK_EXCEPTION(images(image, Size2{6, 10}), ShapeError,
                        says("ConvTranspose2d", "output_size", "10", "8 to 9", "4"));
  BOOST_CHECK_EXCEPTION(lines(line, 7), ShapeError, says("ConvTranspose1d", "output_size", "7", "8 to 9"));
  BOOST_CHECK_EXCEPTION(images(line, Size2{7, 8}), ShapeError, says("ConvTranspose2d", "[1, 4]"));
  BOOST_CHECK_EXCEPTION(lines(Tensor(), 7), Error, says("ConvTranspose1d", "undefined"));
}

BOOST_AUTO_TEST_CASE(adaptive_maxima_are_found_where_pytorch_finds_them) {
  const Golden golden(TENDRIL_TEST_DATA "/places_and_sizes.txt");
  const Tensor image = golden.get("image"), line = golden.get("line");
  for (const auto& [name, size] : {std::pair{"fewer", Size2(3, 4)}, {"more", Size2(7, 2)}, {"whole", Size2(1)}}) {
    BOOST_TEST_CONTEXT(name) {
      const auto [values, places] = tendril::adaptive_max_pool2d_with_indices(image, size);
      BOOST_TEST(places.to_vector<int64_t>() == golden.get(std::string("places_") + name).to_vector<int64_t>());
      BOOST_TEST(raw::equal(values, image.flatten(-2).gather(-1, places.flatten(-2)).reshape(values.sizes())));
    }
  }
  const auto [values, places] = tendril::adaptive_max_pool1d_with_indices(line, 4);
  BOOST_TEST(places.to_vector<int64_t>() == golden.get("places_line").to_vector<int64_t>());
  BOOST_TEST(raw::equal(values, tendril::adaptive_max_pool1d(line, 4)));
  const auto [of_one, place_of_one] = tendril::adaptive_max_pool2d_with_indices(image[1], 2);
  BOOST_TEST((place_of_one.sizes() == Dims({2, 2, 2})));
  BOOST_CHECK_EXCEPTION(tendril::adaptive_max_pool2d_with_indices(image, 0), Error, says("output"));
}

BOOST_AUTO_TEST_CASE(images_resized_by_nearest_centres_and_cubic_convolution_equal_pytorchs) {
  const Golden golden(TENDRIL_TEST_DATA "/upsample_more.txt");
  const auto bicubic = InterpolateMode::bicubic, exact = InterpolateMode::nearest_exact;
  const std::vector<std::pair<std::string, tendril::InterpolateOptions>> cases = {
      {"exact_size", {.size = Dims{7, 3}, .mode = exact}},
      {"exact_uneven", {.scale_factor = {{1.5, 0.6}}, .mode = exact}},
      {"bicubic_2", {.scale_factor = {{2, 2}}, .mode = bicubic}},
      {"bicubic_size", {.size = Dims{7, 3}, .mode = bicubic}},
      {"bicubic_corners", {.size = Dims{7, 9}, .mode = bicubic, .align_corners = true}},
      {"bicubic_one", {.size = Dims{1, 1}, .mode = bicubic}},
      {"bicubic_uneven", {.scale_factor = {{1.7, 0.6}}, .mode = bicubic}},
      {"exact_same", {.scale_factor = {{1, 1.15}}, .mode = exact}}};
  for (const DType dtype : {tendril::kFloat64, tendril::kFloat32}) {
    const Tensor x = golden.get("x", dtype).requires_grad_();
    for (const auto& [name, options] : cases) {
      x.zero_grad();
      check_layer(golden, name, dtype, [&] { return nn::Upsample(options)(x); }, {{"x", x}});
    }
    const Tensor same = nn::Upsample(tendril::InterpolateOptions{.scale_factor = {{1, 1.15}}, .mode = bicubic})(x);
    BOOST_TEST(tendril::testing::difference(same, golden.get("bicubic_same.y", dtype), 1e-5, 1e-5) == "");
    x.zero_grad();
    check_layer(golden, "softmax2d", dtype, [&] { return nn::Softmax2d()(x); }, {{"x", x}});
  }
  const Tensor image = make::ones({2, 1, 3});
  BOOST_TEST(nn::Softmax2d()(image).to_vector<double>() == std::vector<double>(6, 0.5));
  BOOST_CHECK_EXCEPTION(nn::Softmax2d()(make::ones({2, 3})), ShapeError, says("Softmax2d", "[2, 3]"));
}

BOOST_AUTO_TEST_CASE(a_query_that_sees_no_key_gets_zeros_whatever_the_mask) {
  const Tensor x = make::ones({1, 2, 4}).requires_grad_();
  const Tensor added = make::zeros({2, 2});
  added[0].fill_(-HUGE_VAL);
  const Tensor seen = make::from_data(std::vector<bool>{false, false, true, true}, {2, 2});
  for (const Tensor& mask : {added, seen}) {
    const Tensor y = tendril::scaled_dot_product_attention(x, x, x, {.attn_mask = mask});
    BOOST_TEST(y.to_vector<double>() == (std::vector<double>{0, 0, 0, 0, 1, 1, 1, 1}));
    const Tensor g = tendril::autograd::grad({y.sum()}, {x})[0];
    for (const double each : g.to_vector<double>()) BOOST_TEST(std::isfinite(each));
  }
  const nn::MultiheadAttention layer(4, 2, {.batch_first = true});
  const auto [output, weights] = layer(x, x, x, {.key_padding_mask = make::ones({1, 2}, tendril::kBool)});
  for (const Tensor& each : {output, weights}) {
    for (const double value : each.to_vector<double>()) BOOST_TEST(std::isfinite(value));
  }
}

BOOST_AUTO_TEST_CASE(an_image_that_keeps_its_size_keeps_its_pixels) {
  const Tensor x = make::arange(0, 9, 1, tendril::kFloat32).reshape({1, 1, 3, 3});
  for (const auto mode : {tendril::InterpolateMode::nearest, tendril::InterpolateMode::bilinear}) {
    const Tensor y = tendril::interpolate(x, {.scale_factor = {{1.3, 1.2}}, .mode = mode});  // 3.9 and 3.6 pixels: 3
    BOOST_TEST(y.to_vector<double>() == x.to_vector<double>());
    BOOST_TEST((y.storage() != x.storage()));
  }
}

BOOST_AUTO_TEST_CASE(what_does_not_fit_is_refused) {
  const Tensor x = make::ones({2, 3, 4}), image = make::ones({1, 1, 2, 2});
  const auto attend = [](const Tensor& q, const Tensor& k, const Tensor& v,
                         const tendril::AttentionOptions& options = {}) {
    return tendril::scaled_dot_product_attention(q, k, v, options);
  };
  BOOST_CHECK_EXCEPTION(attend(x, make::ones({2, 3, 5}), x), ShapeError,
                        says("scaled_dot_product_attention", "[2, 3, 5]"));
  BOOST_CHECK_EXCEPTION(attend(x, x, x, {.attn_mask = make::ones({3, 2}), .is_causal = true}), Error,
                        says("attn_mask", "is_causal"));
  BOOST_CHECK_EXCEPTION(attend(x, x, x, {.attn_mask = make::ones({3, 2})}), ShapeError, says("attn_mask", "[3, 2]"));
  BOOST_CHECK_EXCEPTION(attend(x, x, x, {.dropout_p = 2}), Error, says("dropout_p", "2"));
  BOOST_CHECK_EXCEPTION(nn::MultiheadAttention(6, 4), Error, says("MultiheadAttention", "num_heads", "4"));
  nn::MultiheadAttention layer(4, 2);
  BOOST_CHECK_EXCEPTION(layer(make::ones({3, 1, 5}), x, x), ShapeError,
                        says("MultiheadAttention", "query", "[3, 1, 5]"));
  BOOST_CHECK_EXCEPTION(layer(x, x, x, {.key_padding_mask = make::ones({1, 1}, tendril::kBool)}), ShapeError,
                        says("key_padding_mask", "[1, 1]"));
  BOOST_CHECK_EXCEPTION(tendril::interpolate(x[0], {.size = 2}), ShapeError, says("interpolate", "[3, 4]"));
  BOOST_CHECK_EXCEPTION(tendril::interpolate(x, {.size = 2, .mode = InterpolateMode::bilinear}), ShapeError,
                        says("interpolate", "[2, 3, 4]", "two", "bilinear"));
  BOOST_CHECK_EXCEPTION(tendril::interpolate(image, {.size = 2, .mode = InterpolateMode::trilinear}), ShapeError,
                        says("interpolate", "[1, 1, 2, 2]", "three", "trilinear"));
  BOOST_CHECK_EXCEPTION(tendril::interpolate(image, {.size = Dims{2, 2, 2}}), ShapeError,
                        says("interpolate", "size", "3 numbers"));
  BOOST_CHECK_EXCEPTION(
      tendril::interpolate(make::ones({1, 1, 2, 2}), {.size = Dims{int64_t{1} << 40, int64_t{1} << 40}}), Error,
      says("interpolate", "size", "fit memory"));
  BOOST_CHECK_EXCEPTION(tendril::interpolate(image, {.scale_factor = std::vector<double>{}}), ShapeError,
                        says("interpolate", "scale_factor", "0 numbers"));
  BOOST_CHECK_EXCEPTION(tendril::interpolate(image, {.size = Dims{2, 0}}), Error, says("interpolate", "[2, 0]"));
  BOOST_CHECK_EXCEPTION(tendril::interpolate(image, {}), Error, says("interpolate", "neither"));
  BOOST_CHECK_EXCEPTION(tendril::interpolate(image, {.scale_factor = {{0.1, 1}}}), Error, says("scale_factor", "0.1"));
  BOOST_CHECK_EXCEPTION(tendril::interpolate(image, {.size = 2, .align_corners = true}), Error,
                        says("align_corners", "bilinear"));
}

BOOST_AUTO_TEST_SUITE_END()
