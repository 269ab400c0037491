#include "body.h"

#include <cmath>

namespace language_model {

Body::Body(const Options& options) : Part(options.seed + 3), scale_(std::sqrt(static_cast<double>(options.ninp))) {
  if (options.model == "LSTM") {
    const nn::LSTMOptions given{.num_layers = options.nlayers, .dropout = options.dropout, .generator = generator};
    lstm_ = std::make_unique<nn::LSTM>(options.ninp, options.nhid, given);
    register_module("rnn", *lstm_);
  } else if (options.model == "Transformer") {
    positions_ = std::make_unique<nn::PositionalEncoding>(
        options.ninp,
        nn::PositionalEncodingOptions{.dropout = options.dropout, .max_len = options.bptt, .generator = generator});
    transformer_ = std::make_unique<nn::TransformerEncoder>(
        options.nlayers, options.ninp, options.nhead,
        nn::TransformerEncoderLayerOptions{
            .dim_feedforward = options.nhid, .dropout = options.dropout, .generator = generator});
    register_module("pos_encoder", *positions_);
    register_module("transformer_encoder", *transformer_);
  } else {
    const auto f = options.model == "RNN_RELU" ? nn::RNNNonlinearity::relu : nn::RNNNonlinearity::tanh;
    const nn::RNNOptions given{
        .num_layers = options.nlayers, .nonlinearity = f, .dropout = options.dropout, .generator = generator};
    if (options.model == "GRU") {
      gru_ = std::make_unique<nn::GRU>(options.ninp, options.nhid, given);
      register_module("rnn", *gru_);
    } else {
      rnn_ = std::make_unique<nn::RNN>(options.ninp, options.nhid, given);
      register_module("rnn", *rnn_);
    }
  }
}

nn::LSTMResult Body::forward(const Tensor& input, const nn::LSTMState& hidden) const {
  if (lstm_) return (*lstm_)(input, hidden);
  if (transformer_) return {(*transformer_)((*positions_)(input * scale_), {.is_causal = true}), hidden};
  const auto [output, h] = gru_ ? (*gru_)(input, hidden.h) : (*rnn_)(input, hidden.h);
  return {output, {h, hidden.c}};
}

}  // namespace language_model
