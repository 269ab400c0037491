#pragma once

#include <string>
#include <vector>

#include "body.h"

namespace language_model {

/// RNNModel with the model of --model in place of the LSTM, or with --tied. The parts have the same placement.
struct OtherModel {
  OtherModel(const std::string& ps, const Options& options)
      : embedding(ps, options.around_body()),
        rnn(options),
        decoder(ps, options.around_body(), embedding.module_rref()),
        tied(options.tied) {}

  nn::LSTMResult forward(const Tensor& input, const nn::LSTMState& hidden) const {
    const auto [output, state] = rnn.forward(embedding.forward(input), hidden);
    return {decoder.forward(output), state};
  }
  void train(bool on) { embedding.train(on), rnn.train(on), decoder.train(on); }
  std::vector<rpc::RRef<Tensor>> parameter_rrefs() const {
    auto all = embedding.remote_parameters();
    for (const auto& more : {dist::parameter_rrefs(rnn), decoder.remote_parameters()})
      all.insert(all.end(), more.begin(), more.end());
    if (tied) all.erase(all.end() - 2);  // the decoder's weight, shared with the embedding; the decoder's bias is last
    return all;
  }

  dist::RemoteModule<EmbeddingTable> embedding;
  Body rnn;
  dist::RemoteModule<TiedDecoder> decoder;
  bool tied;
};

}  // namespace language_model
