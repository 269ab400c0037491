// Recurrent cells and the decoder half of a transformer.
#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

#include "tendril/autograd/gradcheck.h"
#include "tendril/autograd/ops/join.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/nn/lstm.h"
#include "tendril/nn/rnn_cell.h"
#include "tendril/nn/transformer_decoder.h"
#include "tendril/tensor/raw.h"
#include "tests/errors.h"
#include "tests/make.h"
#include "tests/nn/layer_golden.h"
#include "tests/seed.h"

BOOST_AUTO_TEST_SUITE(cells_and_decoders)

using tendril::Dims;
using tendril::DType;
using tendril::DTypeError;
using tendril::Error;
using tendril::ShapeError;
using tendril::Tensor;
using tendril::autograd::DifferentiableFunction;
using tendril::testing::Golden;
using tendril::testing::says;
using tendril::testing::test_seed;
namespace nn = tendril::nn;
namespace make = tendril::make;
namespace raw = tendril::raw;

namespace {

const Golden& golden() {
  static const Golden file(TENDRIL_TEST_DATA "/cells_and_decoders.txt");
  return file;
}

/// Gives the layer the golden parameters and compares `call(layer, inputs)` and all gradients.
template <class Layer, class Call>
void check(const std::string& name, DType dtype, Layer&& layer, const std::vector<std::string>& inputs,
           const Call& call) {
  std::vector<std::pair<std::string, Tensor>> leaves;
  std::vector<Tensor> given;
  for (const std::string& input : inputs) {
    given.push_back(golden().get(name + "." + input, dtype).requires_grad_());
    leaves.emplace_back(input, given.back());
  }
  for (auto& [key, parameter] : layer.named_parameters()) {
    raw::copy_(parameter, golden().get(name + "." + key, dtype));
    leaves.emplace_back(key, parameter);
  }
  check_layer(
      golden(), name, dtype, [&] { return call(layer, given); }, leaves, 5);
}

void check_derivatives(const char* name, const DifferentiableFunction& f, const std::vector<Tensor>& inputs) {
  BOOST_TEST_CONTEXT(name) {
    const auto first = tendril::autograd::gradcheck(f, inputs);
    BOOST_TEST(first.ok, first.message);
    const auto second = tendril::autograd::gradgradcheck(f, inputs);
    BOOST_TEST(second.ok, second.message);
  }
}

Tensor draw(const Dims& sizes) {
  tendril::Generator& generator = tendril::testing::case_engine<tendril::Generator>();
  Tensor x = make::empty(sizes, tendril::kFloat64);
  raw::uniform_(x, -1, 1, generator);
  return x.requires_grad_();
}

}  // namespace

BOOST_AUTO_TEST_CASE(cells_equal_pytorchs) {
  const auto one = [](auto& cell, const std::vector<Tensor>& in) { return cell(in[0], in[1]); };
  const auto two = [](auto& cell, const std::vector<Tensor>& in) {
    const auto [h, c] = cell(in[0], {in[1], in[2]});
    return tendril::cat({h, c});
  };
  for (const DType dtype : {tendril::kFloat64, tendril::kFloat32}) {
    const nn::RNNCellOptions plain{.dtype = dtype}, no_bias{.bias = false, .dtype = dtype};
    for (const std::string at : {"", "_one"}) {
      check("rnn" + at, dtype, nn::RNNCell(2, 3, plain), {"x", "h"}, one);
      check("rnn_relu" + at, dtype,
            nn::RNNCell(2, 3, {.nonlinearity = nn::RNNNonlinearity::relu, .bias = false, .dtype = dtype}), {"x", "h"},
            one);
      check("gru" + at, dtype, nn::GRUCell(2, 3, plain), {"x", "h"}, one);
      check("lstm" + at, dtype, nn::LSTMCell(2, 3, plain), {"x", "h", "c"}, two);
      check("lstm_no_bias" + at, dtype, nn::LSTMCell(2, 3, no_bias), {"x", "h", "c"}, two);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_cell_walked_along_a_sequence_is_the_layer) {
  const nn::LSTM lstm(2, 3);
  nn::LSTMCell first(2, 3);
  nn::LSTMCell cell = std::move(first);
  const auto weights = lstm.named_parameters();
  const auto own = cell.named_parameters();
  BOOST_REQUIRE(weights.size() == own.size());
  for (std::size_t i = 0; i < own.size(); ++i) {
    BOOST_TEST(weights[i].first == own[i].first + "_l0");
    raw::copy_(own[i].second, weights[i].second.detach());
  }
  const Tensor x = draw({4, 2, 2}).detach().to(tendril::kFloat32);
  nn::LSTMState state;
  std::vector<Tensor> outputs;
  for (const Tensor& step : x.unbind(0)) {
    state = cell(step, state);
    outputs.push_back(state.h);
  }
  BOOST_TEST(tendril::allclose(tendril::stack(outputs), lstm(x).output, 1e-5, 1e-6));
}

BOOST_AUTO_TEST_CASE(derivatives_of_both_orders_agree_with_differences) {
  const nn::RNNCellOptions wide{.dtype = tendril::kFloat64};
  nn::RNNCell rnn(2, 2, wide);
  nn::GRUCell gru(2, 2, wide);
  nn::LSTMCell lstm(2, 2, wide);
  const auto with_weights = [](auto& cell, const std::vector<Tensor>& in, std::size_t from) {
    cell.weight_ih = in[from];
    cell.weight_hh = in[from + 1];
    cell.bias_ih = in[from + 2];
    cell.bias_hh = in[from + 3];
  };
  const auto weights = [&](int64_t rows) {
    return std::vector<Tensor>{draw({rows, 2}), draw({rows, 2}), draw({rows}), draw({rows})};
  };
  const auto joined = [](std::vector<Tensor> a, const std::vector<Tensor>& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  };
  check_derivatives(
      "rnn cell",
      [&](const std::vector<Tensor>& in) {
        with_weights(rnn, in, 2);
        return std::vector<Tensor>{rnn(in[0], in[1])};
      },
      joined({draw({2, 2}), draw({2, 2})}, weights(2)));
  check_derivatives(
      "gru cell",
      [&](const std::vector<Tensor>& in) {
        with_weights(gru, in, 2);
        return std::vector<Tensor>{gru(in[0], in[1])};
      },
      joined({draw({2, 2}), draw({2, 2})}, weights(6)));
  check_derivatives(
      "lstm cell",
      [&](const std::vector<Tensor>& in) {
        with_weights(lstm, in, 3);
        const auto [h, c] = lstm(in[0], {in[1], in[2]});
        return std::vector<Tensor>{h, c};
      },
      joined({draw({2, 2}), draw({2, 2}), draw({2, 2})}, weights(8)));
  for (const bool norm_first : {false, true}) {
    nn::TransformerDecoderLayer layer(4, 2,
                                      {.dim_feedforward = 3,
                                       .dropout = 0,
                                       .activation = nn::TransformerActivation::gelu,
                                       .layer_norm_eps = 0.1,
                                       .norm_first = norm_first,
                                       .dtype = tendril::kFloat64});
    check_derivatives("decoder layer",
                      [&](const std::vector<Tensor>& in) { return std::vector<Tensor>{layer(in[0], in[1])}; },
                      {draw({2, 1, 4}), draw({3, 1, 4})});
  }
}

BOOST_AUTO_TEST_CASE(decoder_layers_equal_pytorchs) {
  const Tensor hidden = golden().get("hidden").ne(0), padding = golden().get("padding").ne(0);
  const auto plain = [](auto& layer, const std::vector<Tensor>& in) { return layer(in[0], in[1]); };
  const auto masked = [&](auto& layer, const std::vector<Tensor>& in) {
    return layer(in[0], in[1], {.tgt_mask = hidden, .memory_key_padding_mask = padding});
  };
  const auto causal = [&](auto& layer, const std::vector<Tensor>& in) {
    return layer(in[0], in[1], {.memory_key_padding_mask = padding, .tgt_is_causal = true});
  };
  for (const DType dtype : {tendril::kFloat64, tendril::kFloat32}) {
    const nn::TransformerDecoderLayerOptions post{.dim_feedforward = 8, .dropout = 0, .dtype = dtype};
    const nn::TransformerDecoderLayerOptions pre{.dim_feedforward = 8,
                                                 .dropout = 0,
                                                 .activation = nn::TransformerActivation::gelu,
                                                 .layer_norm_eps = 1e-3,
                                                 .batch_first = true,
                                                 .norm_first = true,
                                                 .bias = false,
                                                 .dtype = dtype};
    check("decoder", dtype, nn::TransformerDecoderLayer(6, 2, post), {"x", "memory"}, plain);
    check("decoder_masks", dtype, nn::TransformerDecoderLayer(6, 2, post), {"x", "memory"}, masked);
    check("decoder_masks", dtype, nn::TransformerDecoderLayer(6, 2, post), {"x", "memory"}, causal);
    check("decoder_options", dtype, nn::TransformerDecoderLayer(6, 2, pre), {"x", "memory"}, plain);
    check("decoder_options_masks", dtype, nn::TransformerDecoderLayer(6, 2, pre), {"x", "memory"}, masked);
    check("decoders", dtype,
          nn::TransformerDecoder(2, 4, 2, {.dim_feedforward = 3, .dropout = 0, .dtype = dtype},
                                 nn::LayerNorm(4, {.dtype = dtype})),
          {"x", "memory"}, plain);
  }
}

BOOST_AUTO_TEST_CASE(what_does_not_fit_is_refused) {
  const nn::GRUCell cell(2, 3);
  BOOST_CHECK_EXCEPTION(cell(make::ones({4, 3})), ShapeError, says("GRUCell", "[4, 3]", "2"));
  BOOST_CHECK_EXCEPTION(cell(make::ones({4, 2}), make::ones({4, 2})), ShapeError,
                        says("GRUCell", "h", "[4, 2]", "[4, 3]"));
  BOOST_CHECK_EXCEPTION(cell(make::ones({4, 2}), make::ones({3})), ShapeError, says("GRUCell", "h", "[3]"));
  BOOST_CHECK_EXCEPTION(cell(make::ones({4, 2}, tendril::kFloat64)), DTypeError, says("GRUCell", "float64", "float32"));
  BOOST_CHECK_EXCEPTION(cell(Tensor()), Error, says("GRUCell", "undefined"));
  BOOST_CHECK_EXCEPTION(nn::LSTMCell(2, 0), Error, says("LSTMCell", "hidden_size", "0"));
  BOOST_CHECK_EXCEPTION(nn::RNNCell(0, 2), Error, says("RNNCell", "input_size", "0"));
  BOOST_CHECK_EXCEPTION(nn::TransformerDecoder(0, 4, 2), Error, says("TransformerDecoder", "num_layers", "0"));
  BOOST_TEST(cell.to_string() == "GRUCell(2, 3)");
  BOOST_TEST(nn::LSTMCell(2, 3, {.bias = false}).to_string() == "LSTMCell(2, 3, bias=False)");
}

BOOST_AUTO_TEST_SUITE_END()
