#pragma once

#include <optional>
#include <string>
#include <vector>

#include "corpus.h"
#include "model.h"

/// Evaluation of a model, wherever its parts live.
namespace language_model {

/// Returns the state without its history: the next iteration starts from it, but its gradients stop there.
inline nn::LSTMState detached(const nn::LSTMState& state) { return {state.h.detach(), state.c.detach()}; }

/// Returns the mean loss per word of the held-out text, or nothing if no text is held out.
template <class Model>
std::optional<double> valid_loss(Model& model, const Corpus& corpus) {
  if (corpus.valid.empty()) return {};
  const tendril::NoGrad no_grad;
  model.train(false);
  nn::LSTMState hidden;
  double sum = 0;
  for (const auto& [data, target] : corpus.valid) {
    const auto [output, state] = model.forward(data, hidden);
    sum += tendril::cross_entropy(output, target).template item<double>();
    hidden = state;
  }
  model.train(true);
  return sum / static_cast<double>(corpus.valid.size());
}

/// Generates `options.samples` words one at a time. A Transformer's context is at most the last --bptt words.
template <class Model>
std::string sample(Model& model, const Corpus& corpus, const Options& options) {
  const tendril::NoGrad no_grad;
  model.train(false);
  tendril::Generator random(static_cast<std::uint64_t>(options.seed));
  const std::size_t seen = options.model == "Transformer" ? static_cast<std::size_t>(options.bptt) : 1;
  nn::LSTMState hidden;
  std::vector<std::int64_t> words = {
      static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(options.ntoken)))};
  std::string text;
  for (std::int64_t i = 0; i < options.samples; ++i) {
    if (words.size() > seen) words.erase(words.begin());
    const Tensor input = tendril::from_vector(words, {static_cast<std::int64_t>(words.size()), 1});
    const auto [output, state] = model.forward(input, hidden);
    const Tensor scores = output.select(0, -1);
    const Tensor next = options.temperature == 0
                            ? scores.argmax(0)
                            : multinomial((scores / options.temperature).softmax(0), 1, true, random).select(0, 0);
    words.push_back(next.template item<std::int64_t>());
    hidden = state;
    const std::string& token = corpus.words.token(words.back());
    text += token == "<eos>" ? "\n" : token + " ";
  }
  model.train(true);
  return text;
}

}  // namespace language_model
