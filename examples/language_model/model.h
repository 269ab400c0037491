#pragma once

#include <tendril/tendril.h>

#include "../support/language_model/options.h"

/// A language model in three parts: words to vectors, an LSTM, and a score for each word that may come next.
namespace language_model {

using namespace tendril;

/// A part of the model, with a generator of its own that it draws from: its numbers are the same wherever it lives.
struct Part : nn::Module {
  explicit Part(std::int64_t seed) : generator(static_cast<std::uint64_t>(seed)) {}
  Generator generator;
};

/// Words [steps, batch] to vectors [steps, batch, ninp].
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

/// The vectors, and what the LSTM remembers of the words before, to its states [steps, batch, nhid].
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

/// The states to a score for each word of the vocabulary, [steps * batch, ntoken].
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

/// All three: the embedding table and the decoder live on `ps`, the LSTM here.
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
