#pragma once

#include <tendril/autograd/ops/loss.h>
#include <tendril/dist/optimizer.h>
#include <tendril/nn/dropout.h>
#include <tendril/nn/embedding.h>
#include <tendril/nn/init.h>
#include <tendril/nn/linear.h>
#include <tendril/nn/lstm.h>
#include <tendril/nn/rnn.h>
#include <tendril/rpc/call.h>
#include <tendril/tensor/random.h>

#include <array>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "options.h"

namespace language_model {

using tendril::Tensor;
namespace dist = tendril::dist;
namespace nn = tendril::nn;
namespace rpc = tendril::rpc;

// Each part draws from a generator of its own: its numbers are the same wherever it lives.

/// Words to vectors.
class EmbeddingTable : public nn::Module {
 public:
  explicit EmbeddingTable(const Options& options)
      : generator_(static_cast<std::uint64_t>(options.seed) + 1),
        encoder_(options.ntoken, options.ninp, {.generator = generator_}),
        drop_(options.dropout, generator_) {
    register_module("encoder", encoder_);
    register_module("drop", drop_);
    nn::init::uniform_(encoder_.weight, -0.1, 0.1, generator_);
  }
  Tensor forward(const Tensor& input) const { return drop_(encoder_(input)); }
  void set_training(bool on) { train(on); }
  tendril::Generator& generator() { return generator_; }
  std::vector<rpc::RRef<Tensor>> parameter_rrefs() const { return dist::parameter_rrefs(*this); }

 private:
  tendril::Generator generator_;
  nn::Embedding encoder_;
  nn::Dropout drop_;
};

/// The LSTM's output to a score for each word of the vocabulary.
class Decoder : public nn::Module {
 public:
  explicit Decoder(const Options& options)
      : generator_(static_cast<std::uint64_t>(options.seed) + 2),
        drop_(options.dropout, generator_),
        decoder_(options.nhid, options.ntoken, {.generator = generator_}) {
    register_module("drop", drop_);
    register_module("decoder", decoder_);
    nn::init::uniform_(decoder_.weight, -0.1, 0.1, generator_);
    nn::init::zeros_(decoder_.bias);
  }
  Tensor forward(const Tensor& output) const { return decoder_(drop_(output)).flatten(0, 1); }
  void set_training(bool on) { train(on); }
  tendril::Generator& generator() { return generator_; }
  std::vector<rpc::RRef<Tensor>> parameter_rrefs() const { return dist::parameter_rrefs(*this); }

 private:
  tendril::Generator generator_;
  nn::Dropout drop_;
  nn::Linear decoder_;
};

/// What lies between them: an LSTM, or one of the layers that carry one state, whose cell state is left as it was.
class Recurrent : public nn::Module {
 public:
  explicit Recurrent(const Options& options)
      : generator_(static_cast<std::uint64_t>(options.seed) + 3), layers_(make(options, generator_)) {
    std::visit([this](auto& layers) { register_module("rnn", layers); }, layers_);
  }
  nn::LSTMResult forward(const Tensor& input, const nn::LSTMState& hidden) const {
    if (const auto* lstm = std::get_if<nn::LSTM>(&layers_)) return (*lstm)(input, hidden);
    const auto* gru = std::get_if<nn::GRU>(&layers_);
    const auto [output, h] = gru ? (*gru)(input, hidden.h) : std::get<nn::RNN>(layers_)(input, hidden.h);
    return {output, {h, hidden.c}};
  }
  tendril::Generator& generator() { return generator_; }
  std::vector<rpc::RRef<Tensor>> parameter_rrefs() const { return dist::parameter_rrefs(*this); }

 private:
  using Layers = std::variant<nn::LSTM, nn::GRU, nn::RNN>;
  static Layers make(const Options& options, tendril::Generator& generator) {
    if (options.model == "LSTM")
      return nn::LSTM(options.ninp, options.nhid,
                      {.num_layers = options.nlayers, .dropout = options.dropout, .generator = generator});
    const auto f = options.model == "RNN_RELU" ? nn::RNNNonlinearity::relu : nn::RNNNonlinearity::tanh;
    const nn::RNNOptions given{
        .num_layers = options.nlayers, .nonlinearity = f, .dropout = options.dropout, .generator = generator};
    if (options.model == "GRU") return nn::GRU(options.ninp, options.nhid, given);
    return nn::RNN(options.ninp, options.nhid, given);
  }

  tendril::Generator generator_;
  Layers layers_;
};

/// The embedding table and the decoder live on `ps`, what lies between them here.
class RNNModel {
 public:
  RNNModel(const std::string& ps, const Options& options)
      : embedding_(rpc::remote<EmbeddingTable>(ps, options)),
        rnn_(options),
        decoder_(rpc::remote<Decoder>(ps, options)) {}

  nn::LSTMResult forward(const Tensor& input, const nn::LSTMState& hidden) const {
    const Tensor emb = embedding_.rpc_sync<&EmbeddingTable::forward>(input);  // forward crosses the border here
    const auto [output, state] = rnn_.forward(emb, hidden);
    return {decoder_.rpc_sync<&Decoder::forward>(output), state};  // and here
  }

  void set_training(bool on) {
    embedding_.rpc_sync<&EmbeddingTable::set_training>(on);
    rnn_.train(on);
    decoder_.rpc_sync<&Decoder::set_training>(on);
  }

  std::vector<rpc::RRef<Tensor>> parameter_rrefs() const {
    auto all = embedding_.rpc_sync<&EmbeddingTable::parameter_rrefs>();
    for (auto& rref : dist::parameter_rrefs(rnn_)) all.push_back(rref);
    for (auto& rref : decoder_.rpc_sync<&Decoder::parameter_rrefs>()) all.push_back(rref);
    return all;
  }

 private:
  rpc::RRef<EmbeddingTable> embedding_;
  Recurrent rnn_;
  rpc::RRef<Decoder> decoder_;
};

/// All three here: what the other model is compared with.
class LocalModel : public nn::Module {
 public:
  explicit LocalModel(const Options& options) : embedding_(options), rnn_(options), decoder_(options) {
    register_module("embedding", embedding_);
    register_module("rnn", rnn_);
    register_module("decoder", decoder_);
  }
  nn::LSTMResult forward(const Tensor& input, const nn::LSTMState& hidden) const {
    const auto [output, state] = rnn_.forward(embedding_.forward(input), hidden);
    return {decoder_.forward(output), state};
  }
  void set_training(bool on) { train(on); }
  /// What each part draws from.
  std::array<tendril::Generator*, 3> generators() {
    return {&embedding_.generator(), &rnn_.generator(), &decoder_.generator()};
  }

 private:
  EmbeddingTable embedding_;
  Recurrent rnn_;
  Decoder decoder_;
};

}  // namespace language_model
