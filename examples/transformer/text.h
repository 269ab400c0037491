#pragma once

#include <tendril/data/text.h>

#include "options.h"

namespace transformer {

/// What is learnt from, nine tenths, and what is held out to see how much was learnt.
struct Text {
  tendril::data::Vocabulary characters;
  tendril::Tensor train, kept;  ///< int64 [n]
};

/// Of the file, or else of lines like "38+7=45", with every pair of numbers below 50 in random order. Throws Error for
/// a file that cannot be read, is not UTF-8, or of which no tenth is longer than the context.
Text load(const Options& options);

/// `count` random pieces of `ids`, [count, context], and the character that follows each of theirs.
struct Pieces {
  tendril::Tensor x, y;
};
Pieces draw_pieces(const tendril::Tensor& ids, std::int64_t count, std::int64_t context, tendril::Generator& random);

}  // namespace transformer
