#pragma once

#include <tendril/autograd/grad_mode.h>
#include <tendril/autograd/ops/loss.h>
#include <tendril/autograd/ops/pointwise.h>
#include <tendril/autograd/ops/random.h>
#include <tendril/tensor/creation.h>

#include <optional>
#include <string>
#include <vector>

#include "corpus.h"
#include "model.h"

/// What a model has learnt; wherever its parts live.
namespace language_model {

/// The next iteration starts from this state, but its gradients end there.
inline nn::LSTMState detached(const nn::LSTMState& state) {
  return {state.h.detach(), state.c.defined() ? state.c.detach() : Tensor()};
}

/// The mean loss of a word of what is kept aside; nothing where nothing is.
template <class Model>
std::optional<double> valid_loss(Model& model, const Corpus& corpus) {
  if (corpus.valid.empty()) return {};
  const tendril::NoGrad no_grad;
  model.set_training(false);
  nn::LSTMState hidden;
  double sum = 0;
  for (const auto& [data, target] : corpus.valid) {
    const auto [output, state] = model.forward(data, hidden);
    sum += tendril::cross_entropy(output, target).template item<double>();
    hidden = state;
  }
  model.set_training(true);
  return sum / static_cast<double>(corpus.valid.size());
}

/// `options.samples` words, one after the other.
template <class Model>
std::string sample(Model& model, const Corpus& corpus, const Options& options) {
  const tendril::NoGrad no_grad;
  model.set_training(false);
  tendril::Generator random(static_cast<std::uint64_t>(options.seed));
  nn::LSTMState hidden;
  std::int64_t word = static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(options.ntoken)));
  std::string text;
  for (std::int64_t i = 0; i < options.samples; ++i) {
    const auto [output, state] = model.forward(tendril::from_vector(std::vector<std::int64_t>{word}, {1, 1}), hidden);
    const Tensor scores = output.select(0, 0);
    const Tensor next = options.temperature == 0
                            ? scores.argmax(0)
                            : multinomial((scores / options.temperature).softmax(0), 1, true, random).select(0, 0);
    word = next.template item<std::int64_t>();
    hidden = state;
    const std::string& token = corpus.words.token(word);
    text += token == "<eos>" ? "\n" : token + " ";
  }
  model.set_training(true);
  return text;
}

}  // namespace language_model
