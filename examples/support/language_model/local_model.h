#pragma once

#include "body.h"
#include "other_model.h"
#include "tied_decoder.h"

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

/// f(name, part) of all of a model that is to be saved. A part without a name is a model of three.
template <class Model, class F>
void for_each_part(Model& model, F f) {
  f("embedding", model.embedding), f("rnn", model.rnn), f("decoder", model.decoder);
}
template <class F>
void for_each_part(LocalModel& model, F f) {
  f("", model);
}
/// What of a model is in this process.
inline nn::Module& here(RNNModel& model) { return model.rnn; }
inline nn::Module& here(OtherModel& model) { return model.rnn; }
inline nn::Module& here(LocalModel& model) { return model; }

}  // namespace language_model
