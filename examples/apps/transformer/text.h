#pragma once

#include <tendril/data/text.h>

#include "options.h"

namespace transformer {

/// The training text (nine tenths) and the held-out text, as character ids.
struct Text {
  tendril::data::Vocabulary characters;
  tendril::Tensor train, kept;  ///< int64 [n]
};

/// Loads the text file, or generates lines such as "38+7=45" for every pair of numbers below 50 in random order. Throws
/// Error if the file cannot be read or is not UTF-8, or if a tenth of the text is not longer than the context.
Text load(const Options& options);

/// Pieces of a text and, for each character, the character that follows; both int64 [count, context].
struct Pieces {
  tendril::Tensor x, y;
};
/// Draws `count` random pieces of `ids`.
Pieces draw_pieces(const tendril::Tensor& ids, std::int64_t count, std::int64_t context, tendril::Generator& random);

}  // namespace transformer
