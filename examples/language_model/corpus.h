#pragma once

#include <tendril/tensor/tensor.h>

#include <vector>

#include "options.h"

namespace language_model {

/// What one iteration reads, and the token that follows each of it.
struct Batch {
  tendril::Tensor data;    ///< [bptt, batch], int64
  tendril::Tensor target;  ///< [bptt * batch], int64
};

/// A language that can be learnt, made from the seed: of `ntoken` words some are much more frequent than others, and
/// four times in five the word before decides which one comes. The corpus is cut into `batch` sequences side by side;
/// each batch continues where the one before ended.
std::vector<Batch> make_corpus(const Options& options);

}  // namespace language_model
