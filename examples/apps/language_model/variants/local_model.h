#pragma once

#include "body.h"

namespace language_model {

/// All three parts in one process.
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

/// Trains in one process, without RPC (--world-size 1); supports checkpoints. With a text, divides the learning rate by
/// four after an epoch that did not improve the held-out loss, as in PyTorch's word_language_model.
void run_alone(Options options);

}  // namespace language_model
