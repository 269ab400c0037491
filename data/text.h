#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tendril/tensor/export.h"
#include "tendril/tensor/tensor.h"

TENDRIL_API_BEGIN

/// Text for language models: tokens by number. Texts are UTF-8. Thread-safety: const members on any thread.
namespace tendril::data {

/// Tokens in the order in which they were added: 0, 1, 2, ...
class Vocabulary {
 public:
  Vocabulary() = default;
  explicit Vocabulary(const std::vector<std::string>& tokens);  ///< throws Error for one that is there twice

  /// How many tokens it knows.
  int64_t size() const noexcept { return static_cast<int64_t>(tokens_.size()); }
  int64_t add(std::string_view token);  ///< its number, also if it is there
  /// The number of a token; none for one that it does not know.
  std::optional<int64_t> find(std::string_view token) const;
  int64_t id(std::string_view token) const;    ///< throws Error for one that is not there
  const std::string& token(int64_t id) const;  ///< throws IndexError
  /// All tokens, by number.
  const std::vector<std::string>& tokens() const noexcept { return tokens_; }
  /// The tokens of these numbers, int64 of any shape, with `between` between them.
  std::string text(const Tensor& ids, std::string_view between = "") const;

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const noexcept { return std::hash<std::string_view>()(text); }
  };
  std::vector<std::string> tokens_;
  std::unordered_map<std::string, int64_t, Hash, std::equal_to<>> ids_;
};

/// The words of a text and "<eos>" at the end of each line, as PyTorch's word_language_model makes them (Python's
/// str.split() and line ends): numbers of words, int64 [n]. New words are added.
Tensor word_ids(std::string_view text, Vocabulary& vocabulary);
/// Throws Error that names the word and its line for one that is not there.
Tensor word_ids(std::string_view text, const Vocabulary& vocabulary);

/// The characters (code points) of a text in order of their codes, each once. Throws Error for what is not UTF-8.
Vocabulary character_vocabulary(std::string_view text);
/// Numbers of a text's characters, int64 [n]. Throws Error for one that is not there, and for what is not UTF-8.
Tensor character_ids(std::string_view text, const Vocabulary& vocabulary);

/// A whole file. Throws Error for what is no readable regular file.
std::string load_text(const std::filesystem::path& file);

/// A folder of train.txt, valid.txt and test.txt, at word level: one vocabulary of all three, in this order.
struct WordCorpus {
  Vocabulary vocabulary;      ///< of the words of all three
  Tensor train, valid, test;  ///< int64 [n]
};
/// The three files of a folder, with one vocabulary.
WordCorpus load_word_corpus(const std::filesystem::path& folder);

/// `batch_size` sequences side by side, [n / batch_size, batch_size]: column k is the k-th piece of the text. What does
/// not divide is left out. Throws Error for ids that are no vector, and where there are fewer than one for each column.
Tensor batchify(const Tensor& ids, int64_t batch_size);

}  // namespace tendril::data

TENDRIL_API_END
