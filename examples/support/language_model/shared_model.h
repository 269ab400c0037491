#pragma once

#include <memory>
#include <string>
#include <vector>

#include "local_model.h"

/// The model of several trainers that share all parameters and do not wait for each other (Recht et al., "Hogwild!",
/// 2011).
namespace language_model {

/// What the parameter server holds. Each forward there reads parameters between two trainers' steps, not within one.
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
  /// Copies of the parameters of what lies between; gradients go through them to the parameters.
  std::vector<Tensor> weights() const {
    const dist::ReadParameters reading;
    std::vector<Tensor> copies;
    for (const Tensor& parameter : rnn.parameters()) copies.push_back(parameter.clone());
    return copies;
  }
};

/// One for all who ask.
inline rpc::RRef<Served> the_served(const Options& options) {
  static const rpc::RRef<Served> served(std::make_shared<Served>(options));
  return served;
}

/// A trainer's side: it computes what lies between with the weights that the server has just then.
class SharedModel {
 public:
  SharedModel(const std::string& ps, const Options& options)
      : served_(rpc::rpc_sync<&the_served>(ps, options)), rnn_(options), mine_(rnn_.parameters()) {}

  nn::LSTMResult forward(const Tensor& input, const nn::LSTMState& hidden) const {
    const auto weights = served_.forward_async<&Served::weights>();
    const Tensor emb = served_.forward<&Served::embed>(input);
    const std::vector<Tensor>& fresh = weights.wait();
    for (std::size_t i = 0; i < mine_.size(); ++i)
      mine_[i].detach_().copy_(fresh[i]);  // recorded: a gradient of mine is one of the server's
    const auto [output, state] = rnn_.forward(emb, hidden);
    return {served_.forward<&Served::decode>(output), state};
  }
  void train(bool on) {
    served_.train(on);
    rnn_.train(on);
  }
  std::vector<rpc::RRef<Tensor>> parameter_rrefs() const { return served_.remote_parameters(); }

  template <class F>
  friend void for_each_part(SharedModel& model, F f) {
    f("", model.served_);
  }
  friend nn::Module& here(SharedModel& model) { return model.rnn_; }

 private:
  dist::RemoteModule<Served> served_;
  Body rnn_;
  std::vector<Tensor> mine_;
};

}  // namespace language_model
