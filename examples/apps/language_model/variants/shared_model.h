#pragma once

#include <memory>
#include <string>
#include <vector>

#include "local_model.h"

/// The model of several trainers that share all parameters and do not wait for each other (Recht et al., "Hogwild!",
/// 2011).
namespace language_model {

/// The parameter server's model. Each forward there reads parameters between two trainers' steps, never during one.
struct Served : LocalModel {
  using LocalModel::LocalModel;

  Tensor embed(const Tensor& input) const {
    const dist::ReadParameters reading;
    return embedding.forward(input);
  }
  Tensor decode(const Tensor& output) const {
    const dist::ReadParameters reading;
    return decoder.forward(output);
  }
  /// Returns copies of the parameters between embedding and decoder. Gradients flow through them to the originals.
  std::vector<Tensor> weights() const {
    const dist::ReadParameters reading;
    std::vector<Tensor> copies;
    for (const Tensor& parameter : rnn.parameters()) copies.push_back(parameter.clone());
    return copies;
  }
};

/// Returns the server's only instance.
inline rpc::RRef<Served> the_served(const Options& options) {
  static const rpc::RRef<Served> served(std::make_shared<Served>(options));
  return served;
}

/// A trainer's side: computes the part between embedding and decoder with the server's current weights.
struct SharedModel {
  SharedModel(const std::string& ps, const Options& options)
      : served(rpc::rpc_sync<&the_served>(ps, options)), rnn(options), mine(rnn.parameters()) {}

  nn::LSTMResult forward(const Tensor& input, const nn::LSTMState& hidden) const {
    const auto weights = served.forward_async<&Served::weights>();
    const Tensor emb = served.forward<&Served::embed>(input);
    const std::vector<Tensor>& fresh = weights.wait();
    for (std::size_t i = 0; i < mine.size(); ++i)
      mine[i].detach_().copy_(fresh[i]);  // recorded, so that gradients flow to the server's parameters
    const auto [output, state] = rnn.forward(emb, hidden);
    return {served.forward<&Served::decode>(output), state};
  }
  void train(bool on) { served.train(on), rnn.train(on); }
  std::vector<rpc::RRef<Tensor>> parameter_rrefs() const { return served.remote_parameters(); }

  dist::RemoteModule<Served> served;
  Body rnn;
  std::vector<Tensor> mine;
};

}  // namespace language_model
