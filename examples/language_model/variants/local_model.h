#pragma once

#include "body.h"

namespace language_model {

/// All three parts in one place.
struct LocalModel : nn::Module {
  explicit LocalModel(const Options& options)
      : embedding(options.around_body()), rnn(options), decoder(options.around_body(), embedding) {
    register_module("embedding", embedding);
    register_module("rnn", rnn);
    register_module("decoder", decoder);
  }
  nn::LSTMResult forward(const Tensor& input, const nn::LSTMState& hidden) const {
    const auto [output, state] = rnn.forward(embedding.forward(input), hidden);
    return {decoder.forward(output), state};
  }

  EmbeddingTable embedding;
  Body rnn;
  TiedDecoder decoder;
};

/// --world-size 1: the same training in one process, without RPC, which can be stopped and goes on. With a text the
/// learning rate is divided by four when an epoch did not help with the held-out text, as in PyTorch's
/// word_language_model.
void run_alone(Options options);

}  // namespace language_model
