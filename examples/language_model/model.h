#pragma once

#include <tendril/dist/nn/remote_module.h>
#include <tendril/nn/dropout.h>
#include <tendril/nn/embedding.h>
#include <tendril/nn/init.h>
#include <tendril/nn/linear.h>

#include <string>
#include <vector>

#include "body.h"

namespace language_model {

namespace dist = tendril::dist;
namespace rpc = tendril::rpc;

/// Words to vectors.
struct EmbeddingTable : Part {
  explicit EmbeddingTable(const Options& options)
      : Part(options.seed + 1),
        encoder(options.ntoken, options.ninp, {.generator = generator}),
        drop(options.dropout_around(), generator) {
    register_module("encoder", encoder);
    register_module("drop", drop);
    nn::init::uniform_(encoder.weight, -0.1, 0.1, generator);
  }
  Tensor forward(const Tensor& input) const { return drop(encoder(input)); }

  nn::Embedding encoder;
  nn::Dropout drop;
};

/// What the LSTM makes of them to a score for each word of the vocabulary.
struct Decoder : Part {
  Decoder(const Options& options, const EmbeddingTable& table)
      : Part(options.seed + 2),
        drop(options.dropout_around(), generator),
        decoder(options.width(), options.ntoken, {.generator = generator}) {
    register_module("drop", drop);
    register_module("decoder", decoder);
    nn::init::uniform_(decoder.weight, -0.1, 0.1, generator);
    nn::init::zeros_(decoder.bias);
    if (options.tied) decoder.weight = table.encoder.weight;
  }
  Decoder(const Options& options, const rpc::RRef<EmbeddingTable>& table) : Decoder(options, table.local_value()) {}
  Tensor forward(const Tensor& output) const { return decoder(drop(output)).flatten(0, 1); }

  nn::Dropout drop;
  nn::Linear decoder;
};

/// The embedding table and the decoder live on `ps`, what lies between them here.
struct RNNModel {
  RNNModel(const std::string& ps, const Options& options)
      : embedding(ps, options), rnn(options), decoder(ps, options, embedding.module_rref()), tied(options.tied) {}

  nn::LSTMResult forward(const Tensor& input, const nn::LSTMState& hidden) const {
    const Tensor emb = embedding.forward(input);  // forward crosses the border here
    const auto [output, state] = rnn.forward(emb, hidden);
    return {decoder.forward(output), state};  // and here
  }
  void train(bool on) { embedding.train(on), rnn.train(on), decoder.train(on); }
  std::vector<rpc::RRef<Tensor>> parameter_rrefs() const {
    auto all = embedding.remote_parameters();
    for (const auto& more : {dist::parameter_rrefs(rnn), decoder.remote_parameters()})
      all.insert(all.end(), more.begin(), more.end());
    if (tied) all.erase(all.end() - 2);  // the decoder's weight, which is the embedding's; its bias is the last
    return all;
  }

  dist::RemoteModule<EmbeddingTable> embedding;
  Body rnn;
  dist::RemoteModule<Decoder> decoder;
  bool tied;
};

}  // namespace language_model
