#pragma once

#include <tendril/data/text.h>
#include <tendril/tensor/tensor.h>

#include <vector>

#include "options.h"

namespace language_model {

/// The input of one iteration, and the token that follows each input token.
struct Batch {
  tendril::Tensor data;    ///< [bptt, batch], int64
  tendril::Tensor target;  ///< [bptt * batch], int64
};

/// A text cut into `batch` parallel sequences; each batch continues where the previous one ended.
struct Corpus {
  std::vector<Batch> train;
  std::vector<Batch> valid;         ///< Held out for evaluation; empty without a text.
  tendril::data::Vocabulary words;  ///< The vocabulary of the text.
};

/// Loads the text of --data: a folder with train.txt and valid.txt, or a file, whose last tenth is held out. Sets
/// `options.ntoken` to the size of its vocabulary. Without --data, generates a learnable language from the seed: some
/// of the `ntoken` words are much more frequent than others, and four times in five the previous word determines the
/// next one. Throws Error for a text that cannot be read or is too short for one batch.
Corpus make_corpus(Options& options);

}  // namespace language_model
