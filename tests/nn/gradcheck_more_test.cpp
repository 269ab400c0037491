// The layers of more_layers_test.cpp and layer_norm_test.cpp against differences of their own values.
#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

#include "tendril/autograd/gradcheck.h"
#include "tendril/autograd/ops/attention.h"
#include "tendril/autograd/ops/interpolate.h"
#include "tendril/autograd/ops/matmul.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/autograd/ops/pool.h"
#include "tendril/nn/batch_norm.h"
#include "tendril/nn/conv.h"
#include "tendril/nn/layer_norm.h"
#include "tendril/nn/rnn.h"
#include "tendril/nn/transformer.h"
#include "tendril/tensor/raw.h"
#include "tests/errors.h"
#include "tests/make.h"
#include "tests/seed.h"

BOOST_AUTO_TEST_SUITE(gradcheck_more)

using tendril::Dims;
using tendril::Tensor;
using tendril::autograd::DifferentiableFunction;
using tendril::testing::test_seed;
namespace nn = tendril::nn;
namespace make = tendril::make;
namespace raw = tendril::raw;

namespace {

Tensor draw(const Dims& sizes, double low = -1, double high = 1) {
  tendril::Generator& generator = tendril::testing::case_engine<tendril::Generator>();
  Tensor x = make::empty(sizes, tendril::kFloat64);
  raw::uniform_(x, low, high, generator);
  return x.requires_grad_();
}

void check(const std::string& name, const DifferentiableFunction& f, const std::vector<Tensor>& inputs) {
  BOOST_TEST_CONTEXT(name) {
    const auto first = tendril::autograd::gradcheck(f, inputs);
    BOOST_TEST(first.ok, first.message);
    const auto second = tendril::autograd::gradgradcheck(f, inputs);
    BOOST_TEST(second.ok, second.message);
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(layers_that_normalise) {
  for (const bool training : {true, false}) {
    nn::LayerNorm layer(3, {.dtype = tendril::kFloat64});
    nn::RMSNorm rms(3, {.dtype = tendril::kFloat64});
    nn::GroupNorm group(2, 4, {.dtype = tendril::kFloat64});
    nn::BatchNorm1d batch(3, {.dtype = tendril::kFloat64});
    for (nn::Module* module : std::vector<nn::Module*>{&layer, &rms, &group, &batch}) module->train(training);
    const auto with = [](auto& of, bool bias) {
      return [&of, bias](const std::vector<Tensor>& in) {
        of.weight = in[1];
        if constexpr (requires { of.bias; }) {
          if (bias) of.bias = in[2];
        } else {
          BOOST_REQUIRE(!bias);
        }
        return std::vector<Tensor>{of(in[0])};
      };
    };
    check("layer_norm", with(layer, true), {draw({2, 2, 3}), draw({3}), draw({3})});
    check("rms_norm", with(rms, false), {draw({2, 3}), draw({3})});
    check("group_norm", with(group, true), {draw({2, 4, 2}), draw({4}), draw({4})});
    check("batch_norm1d", with(batch, true), {draw({4, 3}), draw({3}), draw({3})});
  }
}

BOOST_AUTO_TEST_CASE(conv1d) {
  nn::Conv1d layer(2, 3, 2, {.stride = 2, .padding = 1, .dtype = tendril::kFloat64});
  check("conv1d",
        [&](const std::vector<Tensor>& in) {
          layer.weight = in[1];
          layer.bias = in[2];
          return std::vector<Tensor>{layer(in[0])};
        },
        {draw({2, 2, 5}), draw({3, 2, 2}), draw({3})});
}

BOOST_AUTO_TEST_CASE(recurrence) {
  nn::GRU gru(2, 2, {.num_layers = 2, .bidirectional = true, .dtype = tendril::kFloat64});
  nn::RNN rnn(2, 3, {.dtype = tendril::kFloat64});
  const auto both = [](auto& layer) {
    return [&layer](const std::vector<Tensor>& in) {
      const auto [output, h_n] = layer(in[0], in[1]);
      return std::vector<Tensor>{output, h_n};
    };
  };
  check("gru", both(gru), {draw({3, 2, 2}), draw({4, 2, 2})});
  check("rnn", both(rnn), {draw({3, 2, 2}), draw({1, 2, 3})});
}

BOOST_AUTO_TEST_CASE(attention) {
  const Tensor mask = make::from_data(std::vector<int64_t>{1, 0, 1, 0, 1, 1}, {2, 3}).ne(0);
  for (const tendril::AttentionOptions& options :
       {tendril::AttentionOptions{}, tendril::AttentionOptions{.is_causal = true},
        tendril::AttentionOptions{.attn_mask = mask}}) {
    check("scaled_dot_product_attention",
          [&](const std::vector<Tensor>& in) {
            const auto [output, weights] = tendril::attention_with_weights(in[0], in[1], in[2], options);
            return std::vector<Tensor>{output, weights};
          },
          {draw({2, 2, 3}), draw({2, 3, 3}), draw({2, 3, 2})});
  }
}

BOOST_AUTO_TEST_CASE(attention_broadcasts_first_dimensions) {
  const Tensor q = draw({2, 2, 3}), k = draw({3, 2, 4, 3}), v = draw({1, 1, 4, 2});
  const auto attend = [](const std::vector<Tensor>& in) {
    return std::vector<Tensor>{tendril::scaled_dot_product_attention(in[0], in[1], in[2])};
  };
  const auto with_weights = [](const std::vector<Tensor>& in) {
    const auto [output, weights] = tendril::attention_with_weights(in[0], in[1], in[2]);
    return std::vector<Tensor>{output, weights};
  };
  const Tensor whole = tendril::scaled_dot_product_attention(q.expand({3, 2, 2, 3}), k, v.expand({3, 2, 4, 2}));
  BOOST_TEST((whole.sizes() == Dims{3, 2, 2, 2}));
  BOOST_TEST(raw::equal(attend({q, k, v})[0], whole));
  BOOST_TEST((with_weights({q, k, v})[1].sizes() == Dims{3, 2, 2, 4}));
  check("attention", attend, {q, k, v});
  check("attention_with_weights", with_weights, {q, k, v});
  check("a matrix of queries", attend, {draw({2, 3}), draw({2, 4, 3}), draw({2, 4, 2})});
  const Tensor mask = draw({3, 1, 2, 4}).detach().gt(0);
  check("mask",
        [&](const std::vector<Tensor>& in) {
          return std::vector<Tensor>{tendril::scaled_dot_product_attention(in[0], in[1], in[2], {.attn_mask = mask})};
        },
        {q, k, v});
  BOOST_CHECK_EXCEPTION(attend({draw({2, 2, 3}), draw({3, 4, 3}), draw({3, 4, 2})}), tendril::ShapeError,
                        tendril::testing::says("scaled_dot_product_attention", "[2, 2, 3], [3, 4, 3]", "broadcast"));
  BOOST_CHECK_EXCEPTION(attend({draw({3}), draw({3, 4, 3}), draw({3, 4, 2})}), tendril::ShapeError,
                        tendril::testing::says("scaled_dot_product_attention", "[3], [3, 4, 3]"));
}

BOOST_AUTO_TEST_CASE(linear_of_a_vector_of_weights_drops_the_dimension) {
  const Tensor x = draw({2, 3, 4}), w = draw({4}), b = draw({});
  const auto plain = [](const std::vector<Tensor>& in) { return std::vector<Tensor>{tendril::linear(in[0], in[1])}; };
  const auto shifted = [](const std::vector<Tensor>& in) {
    return std::vector<Tensor>{tendril::linear(in[0], in[1], in[2])};
  };
  BOOST_TEST((plain({x, w})[0].sizes() == Dims{2, 3}));
  BOOST_TEST((tendril::linear(w, w).sizes() == Dims{}));
  BOOST_TEST(
      tendril::allclose(shifted({x, w, b})[0], tendril::linear(x, w.unsqueeze(0), b.unsqueeze(0)).squeeze(-1), 1e-12));
  check("linear", plain, {x, w});
  check("linear with a bias", shifted, {x, w, b});
  check("linear of a vector", shifted, {draw({4}), w, b});
  BOOST_TEST(raw::equal(tendril::linear_relu(x, w, b), tendril::linear(x, w, b).relu()));
  BOOST_TEST(raw::equal(tendril::linear_gelu_tanh(x, w, b), tendril::linear(x, w, b).gelu_tanh()));
  const Tensor half = x.detach().to(tendril::kBFloat16), weights = w.detach().to(tendril::kBFloat16);
  BOOST_TEST(tendril::linear(half, weights, b.detach().to(tendril::kBFloat16)).dtype() == tendril::kBFloat16);
  const auto refuses = [](const auto& call, const auto&... parts) {
    BOOST_CHECK_EXCEPTION(call(), tendril::ShapeError, tendril::testing::says(parts...));
  };
  refuses([&] { tendril::linear(x, draw({3})); }, "linear: expected x of [..., in]", "[2, 3, 4] and [3]");
  refuses([&] { tendril::linear(b, w); }, "linear: expected x of [..., in]");
  refuses([&] { tendril::linear(x, w, draw({1})); }, "linear: the bias has shape [1], expected []");
}

BOOST_AUTO_TEST_CASE(multihead_attention_and_encoder) {
  nn::MultiheadAttention attention(4, 2, {.dtype = tendril::kFloat64});
  check("multihead_attention",
        [&](const std::vector<Tensor>& in) {
          attention.in_proj_weight = in[2];
          attention.in_proj_bias = in[3];
          attention.out_proj.weight = in[4];
          attention.out_proj.bias = in[5];
          const auto [output, weights] = attention(in[0], in[1], in[1]);
          return std::vector<Tensor>{output, weights};
        },
        {draw({2, 2, 4}), draw({3, 2, 4}), draw({12, 4}), draw({12}), draw({4, 4}), draw({4})});
  for (const bool norm_first : {false, true}) {
    nn::TransformerEncoderLayer layer(4, 2,
                                      {.dim_feedforward = 3,
                                       .dropout = 0,
                                       .activation = nn::TransformerActivation::gelu,
                                       .layer_norm_eps = 0.1,
                                       .norm_first = norm_first,
                                       .dtype = tendril::kFloat64});
    check("encoder layer", [&](const std::vector<Tensor>& in) { return std::vector<Tensor>{layer(in[0])}; },
          {draw({2, 2, 4})});
  }
}

BOOST_AUTO_TEST_CASE(interpolation) {
  using tendril::InterpolateMode;
  using tendril::Size2;
  for (const tendril::InterpolateOptions& options :
       {tendril::InterpolateOptions{.size = Dims{3, 2}},
        tendril::InterpolateOptions{.size = Dims{5, 2}, .mode = InterpolateMode::bilinear},
        tendril::InterpolateOptions{.size = Dims{5, 2}, .mode = InterpolateMode::nearest_exact},
        tendril::InterpolateOptions{.size = Dims{5, 2}, .mode = InterpolateMode::bicubic},
        tendril::InterpolateOptions{.size = Dims{3, 4}, .mode = InterpolateMode::bilinear, .align_corners = true}}) {
    check("interpolate",
          [&](const std::vector<Tensor>& in) { return std::vector<Tensor>{tendril::interpolate(in[0], options)}; },
          {draw({1, 2, 3, 3})});
  }
  const auto resized = [](InterpolateMode mode, bool align_corners) {
    return [=](const std::vector<Tensor>& in) {
      return std::vector<Tensor>{
          tendril::interpolate(in[0], {.size = 4, .mode = mode, .align_corners = align_corners})};
    };
  };
  for (const bool corners : {false, true}) {
    check("linear", resized(InterpolateMode::linear, corners), {draw({2, 1, 3})});
    check("trilinear", resized(InterpolateMode::trilinear, corners), {draw({1, 1, 2, 1, 3})});
  }
  check("nearest of a volume", resized(InterpolateMode::nearest, false), {draw({1, 1, 2, 1, 3})});
}

BOOST_AUTO_TEST_CASE(an_encoder_with_a_norm_and_a_convolution_with_a_size) {
  const nn::TransformerEncoder encoder(1, 4, 2,
                                       {.dim_feedforward = 3,
                                        .dropout = 0,
                                        .activation = nn::TransformerActivation::gelu,
                                        .layer_norm_eps = 0.1,
                                        .norm_first = true,
                                        .dtype = tendril::kFloat64},
                                       nn::LayerNorm(4, {.eps = 0.1, .dtype = tendril::kFloat64}));
  check("encoder", [&](const std::vector<Tensor>& in) { return std::vector<Tensor>{encoder(in[0])}; },
        {draw({2, 2, 4})});
  const nn::ConvTranspose2d layer(1, 2, 2, {.stride = 2, .dtype = tendril::kFloat64});
  check("transposed",
        [&](const std::vector<Tensor>& in) {
          return std::vector<Tensor>{layer(in[0], tendril::Size2{5, 4})};
        },
        {draw({1, 1, 2, 2})});
  check("adaptive maxima",
        [&](const std::vector<Tensor>& in) {
          return std::vector<Tensor>{std::get<0>(tendril::adaptive_max_pool2d_with_indices(in[0], {2, 3}))};
        },
        {(make::randperm(24, tendril::testing::case_engine<tendril::Generator>()).to(tendril::kFloat64) / 24)
             .view({1, 2, 3, 4})
             .requires_grad_()});  // distinct values
}

BOOST_AUTO_TEST_SUITE_END()
