#include "corpus.h"

#include <tendril/tensor/creation.h>
#include <tendril/tensor/random.h>

#include <cstdint>

namespace language_model {

std::vector<Batch> make_corpus(const Options& options) {
  tendril::Generator random(static_cast<std::uint64_t>(options.seed));
  const auto frequent = [&] {  // word k about as often as x^2 falls between k and k + 1
    const double x = random.uniform();
    return static_cast<std::int64_t>(x * x * static_cast<double>(options.ntoken));
  };
  std::vector<std::int64_t> successor, text;
  for (std::int64_t i = 0; i < options.ntoken; ++i) successor.push_back(frequent());
  for (std::int64_t word = 0, i = 0; i < options.tokens; ++i) {
    text.push_back(word);
    word = random.uniform() < 0.8 ? successor[static_cast<std::size_t>(word)] : frequent();
  }

  const std::int64_t steps = options.tokens / options.batch;
  std::vector<Batch> batches;
  for (std::int64_t start = 0; start + options.bptt < steps; start += options.bptt) {
    std::vector<std::int64_t> data, target;
    for (std::int64_t t = start; t < start + options.bptt; ++t) {
      for (std::int64_t sequence = 0; sequence < options.batch; ++sequence) {
        const auto at = static_cast<std::size_t>(sequence * steps + t);
        data.push_back(text[at]);
        target.push_back(text[at + 1]);
      }
    }
    batches.push_back({tendril::from_vector(data, {options.bptt, options.batch}),
                       tendril::from_vector(target, {options.bptt * options.batch})});
  }
  return batches;
}

}  // namespace language_model
