#pragma once

#include <tendril/data/text.h>
#include <tendril/tensor/tensor.h>

#include <vector>

#include "options.h"

namespace language_model {

/// What one iteration reads, and the token that follows each of it.
struct Batch {
  tendril::Tensor data;    ///< [bptt, batch], int64
  tendril::Tensor target;  ///< [bptt * batch], int64
};

/// Cut into `batch` sequences side by side; each batch continues where the one before ended.
struct Corpus {
  std::vector<Batch> train;
  std::vector<Batch> valid;         ///< Held out to see how much was learnt; without a text, nothing.
  tendril::data::Vocabulary words;  ///< Of the text.
};

/// With --data a text: a folder of train.txt and valid.txt, or a file, whose last tenth is held out; `options.ntoken`
/// becomes the number of its words. Without, a language that can be learnt, made from the seed: of `ntoken` words some
/// are much more frequent than others, and four times in five the word before decides which one comes. Throws Error for
/// a text that cannot be read or is too short for one batch.
Corpus make_corpus(Options& options);

}  // namespace language_model
