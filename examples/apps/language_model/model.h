#pragma once

#include <tendril/tendril.h>

#include "options.h"

/// A language model in three parts: an embedding table, an LSTM, and a decoder that scores each possible next word.
namespace language_model {

using namespace tendril;

/// A part of the model with its own random generator, so its random numbers do not depend on the worker it lives on.
struct Part : nn::Module {
  explicit Part(std::int64_t seed) : generator(static_cast<std::uint64_t>(seed)) {}
  Generator generator;
};

/// Maps words [steps, batch] to vectors [steps, batch, ninp].
struct EmbeddingTable : Part {
  explicit EmbeddingTable(const Options& options)
      : Part(options.seed + 1),
        encoder(options.ntoken, options.ninp, {.generator = generator}),
        drop(options.dropout, generator) {
    register_module("encoder", encoder);
    register_module("drop", drop);
    nn::init::uniform_(encoder.weight, -0.1, 0.1, generator);
  }
  Tensor forward(const Tensor& input) const { return drop(encoder(input)); }

  nn::Embedding encoder;
  nn::Dropout drop;
};

/// Maps the vectors and the LSTM's previous state to outputs [steps, batch, nhid].
struct Recurrent : Part {
  explicit Recurrent(const Options& options)
      : Part(options.seed + 3),
        rnn(options.ninp, options.nhid,
            {.num_layers = options.nlayers, .dropout = options.dropout, .generator = generator}) {
    register_module("rnn", rnn);
  }
  nn::LSTMResult forward(const Tensor& input, const nn::LSTMState& hidden) const { return rnn(input, hidden); }

  nn::LSTM rnn;
};

/// Maps the outputs to scores for each word of the vocabulary, [steps * batch, ntoken].
struct Decoder : Part {
  explicit Decoder(const Options& options)
      : Part(options.seed + 2),
        drop(options.dropout, generator),
        decoder(options.nhid, options.ntoken, {.generator = generator}) {
    register_module("drop", drop);
    register_module("decoder", decoder);
    nn::init::uniform_(decoder.weight, -0.1, 0.1, generator);
    nn::init::zeros_(decoder.bias);
  }
  Tensor forward(const Tensor& output) const { return decoder(drop(output)).flatten(0, 1); }

  nn::Dropout drop;
  nn::Linear decoder;
};

/// The three parts: the embedding table and the decoder live on `ps`, the LSTM in this process.
struct RNNModel {
  RNNModel(const std::string& ps, const Options& options)
      : embedding(ps, options), rnn(options), decoder(ps, options) {}

  nn::LSTMResult forward(const Tensor& input, const nn::LSTMState& hidden) const {
    const Tensor emb = embedding.forward(input);  // forward crosses to the server here
    const auto [output, state] = rnn.forward(emb, hidden);
    return {decoder.forward(output), state};  // and here
  }
  void train(bool on) { embedding.train(on), rnn.train(on), decoder.train(on); }
  std::vector<rpc::RRef<Tensor>> parameter_rrefs() const {
    auto all = embedding.remote_parameters();
    for (const auto& more : {dist::parameter_rrefs(rnn), decoder.remote_parameters()})
      all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  dist::RemoteModule<EmbeddingTable> embedding;
  Recurrent rnn;
  dist::RemoteModule<Decoder> decoder;
};

}  // namespace language_model
