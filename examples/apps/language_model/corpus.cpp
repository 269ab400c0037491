#include "corpus.h"

#include <tendril/tensor/creation.h>
#include <tendril/tensor/error.h>
#include <tendril/tensor/random.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>

namespace language_model {
namespace {

using tendril::Tensor;

std::vector<Batch> batches_of(const Tensor& ids, const Options& options) {
  const Tensor columns = tendril::data::batchify(ids, options.batch).to(tendril::default_device());  // [steps, batch]
  std::vector<Batch> batches;
  for (std::int64_t start = 0; start + options.bptt < columns.size(0); start += options.bptt)
    batches.push_back({columns.slice(0, start, start + options.bptt),
                       columns.slice(0, start + 1, start + options.bptt + 1).reshape({-1})});
  return batches;
}

/// --dry-run: keeps one batch per trainer.
void shorten(Corpus& corpus, const Options& options) {
  if (!options.dry_run) return;
  corpus.train.resize(std::min(corpus.train.size(), static_cast<std::size_t>(std::max(options.trainers(), 1))));
  corpus.valid.resize(std::min<std::size_t>(corpus.valid.size(), 1));
}

Tensor made_text(const Options& options) {
  tendril::Generator random(static_cast<std::uint64_t>(options.seed));
  const auto frequent = [&] {  // x^2 ntoken, x uniform: low word numbers are frequent
    const double x = random.uniform();
    return static_cast<std::int64_t>(x * x * static_cast<double>(options.ntoken));
  };
  std::vector<std::int64_t> successor, text;
  for (std::int64_t i = 0; i < options.ntoken; ++i) successor.push_back(frequent());
  for (std::int64_t word = 0, i = 0; i < options.tokens; ++i) {
    text.push_back(word);
    word = random.uniform() < 0.8 ? successor[static_cast<std::size_t>(word)] : frequent();
  }
  return tendril::from_vector(text, {options.tokens});
}

}  // namespace

Corpus make_corpus(Options& options) {
  Corpus corpus;
  if (options.data.empty()) {
    corpus.train = batches_of(made_text(options), options);
    shorten(corpus, options);
    return corpus;
  }
  Tensor train, valid;
  if (std::filesystem::is_directory(options.data)) {
    tendril::data::WordCorpus words = tendril::data::load_word_corpus(options.data);
    corpus.words = std::move(words.vocabulary);
    train = words.train, valid = words.valid;
  } else {
    const Tensor ids = tendril::data::word_ids(tendril::data::load_text(options.data), corpus.words);
    const std::int64_t kept = ids.numel() / 10;
    train = ids.slice(0, 0, ids.numel() - kept), valid = ids.slice(0, ids.numel() - kept, ids.numel());
  }
  options.ntoken = corpus.words.size();
  for (const auto& [text, batches] : {std::pair{train, &corpus.train}, {valid, &corpus.valid}}) {
    const std::int64_t least = options.batch * (options.bptt + 1);
    if (text.numel() < least)
      throw tendril::Error(options.data + ": expected at least batch x (bptt + 1) = " + std::to_string(least) +
                           " words to learn from and as many to keep aside, got " + std::to_string(train.numel()) +
                           " and " + std::to_string(valid.numel()));
    *batches = batches_of(text, options);
  }
  shorten(corpus, options);
  return corpus;
}

}  // namespace language_model
