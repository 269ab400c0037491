#include "tendril/data/text.h"

#include <algorithm>
#include <set>

#include "tendril/tensor/error.h"
#include "tendril/tensor/files/detail/bytes.h"
#include "tendril/tensor/raw.h"

namespace tendril::data {
namespace {

constexpr char32_t kInvalid = 0xffffffff;

/// The code point at the front of `text`, and how many bytes it takes; kInvalid and 1 for what is not UTF-8.
std::pair<char32_t, std::size_t> first_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const std::size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < length) return {kInvalid, 1};
  char32_t code = lead & (0xffu >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {kInvalid, 1};
    code = code << 6 | (byte(i) & 0x3f);
  }
  constexpr char32_t kLeast[] = {0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xd800 && code < 0xe000;
  if (code < kLeast[length - 2] || code > 0x10ffff || surrogate) return {kInvalid, 1};
  return {code, length};
}

/// What Python's str.split() splits at.
bool is_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0d) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

/// Calls `word(text, line)` for each word and, at the end of each line, for "<eos>".
template <class Word>
void for_each_word(std::string_view text, const Word& word) {
  int64_t line = 1;
  bool open = false;  // a line that has begun
  std::size_t begin = 0, at = 0;
  const auto end_word = [&] {
    if (at > begin) word(text.substr(begin, at - begin), line);
  };
  while (at < text.size()) {
    const auto [c, length] = first_character(text.substr(at));
    if (is_space(c)) {
      end_word();
      open = true;
      std::size_t skipped = length;
      if (c == '\n' || c == '\r') {
        word("<eos>", line++);
        open = false;
        if (text.substr(at).starts_with("\r\n")) skipped = 2;
      }
      at += skipped;
      begin = at;
    } else {
      open = true;
      at += length;
    }
  }
  end_word();
  if (open) word("<eos>", line);
}

template <class Character>
void for_each_character(std::string_view text, const char* op, const Character& character) {
  for (std::size_t at = 0; at < text.size();) {
    const auto [c, length] = first_character(text.substr(at));
    TENDRIL_CHECK(c != kInvalid, op, ": text: byte ", at, " is not UTF-8");
    character(text.substr(at, length), at);
    at += length;
  }
}

Tensor tensor_of_ids(const std::vector<int64_t>& ids) {
  return raw::from_data(ids, {static_cast<int64_t>(ids.size())});
}

}  // namespace

Vocabulary::Vocabulary(const std::vector<std::string>& tokens) {
  for (const std::string& token : tokens) {
    TENDRIL_CHECK(!find(token), "Vocabulary: tokens: '", token, "' is there twice");
    add(token);
  }
}

int64_t Vocabulary::add(std::string_view token) {
  if (const auto found = ids_.find(token); found != ids_.end()) return found->second;
  ids_.emplace(token, size());
  tokens_.emplace_back(token);
  return size() - 1;
}

std::optional<int64_t> Vocabulary::find(std::string_view token) const {
  const auto found = ids_.find(token);
  return found == ids_.end() ? std::nullopt : std::optional(found->second);
}

int64_t Vocabulary::id(std::string_view token) const {
  const auto found = find(token);
  TENDRIL_CHECK(found, "Vocabulary::id: token: '", token, "' is not among the ", size());
  return *found;
}

const std::string& Vocabulary::token(int64_t id) const {
  TENDRIL_CHECK_AS(IndexError, id >= 0 && id < size(), "Vocabulary::token: id: got ", id,
                   ", expected one from 0 to below ", size());
  return tokens_[static_cast<std::size_t>(id)];
}

std::string Vocabulary::text(const Tensor& ids, std::string_view between) const {
  tendril::detail::check_defined(ids, "Vocabulary::text", "ids");
  TENDRIL_CHECK_AS(DTypeError, ids.dtype() == kInt64, "Vocabulary::text: ids: got ", ids.dtype(), ", expected int64");
  std::string text;
  bool first = true;
  for (const int64_t id : ids.to_vector<int64_t>()) {
    if (!first) text += between;
    first = false;
    text += token(id);
  }
  return text;
}

Tensor word_ids(std::string_view text, Vocabulary& vocabulary) {
  std::vector<int64_t> ids;
  for_each_word(text, [&](std::string_view word, int64_t) { ids.push_back(vocabulary.add(word)); });
  return tensor_of_ids(ids);
}

Tensor word_ids(std::string_view text, const Vocabulary& vocabulary) {
  std::vector<int64_t> ids;
  for_each_word(text, [&](std::string_view word, int64_t line) {
    const auto id = vocabulary.find(word);
    TENDRIL_CHECK(id, "word_ids: text: line ", line, ": '", word, "' is not among the ", vocabulary.size(),
                  " words of the vocabulary");
    ids.push_back(*id);
  });
  return tensor_of_ids(ids);
}

Vocabulary character_vocabulary(std::string_view text) {
  std::set<std::string_view> characters;  // bytes of UTF-8 are in the order of the code points
  for_each_character(text, "character_vocabulary", [&](std::string_view c, std::size_t) { characters.insert(c); });
  Vocabulary vocabulary;
  for (const std::string_view character : characters) vocabulary.add(character);
  return vocabulary;
}

Tensor character_ids(std::string_view text, const Vocabulary& vocabulary) {
  std::vector<int64_t> ids;
  ids.reserve(text.size());
  for_each_character(text, "character_ids", [&](std::string_view character, std::size_t at) {
    const auto id = vocabulary.find(character);
    TENDRIL_CHECK(id, "character_ids: text: byte ", at, ": '", character, "' is not among the ", vocabulary.size(),
                  " characters of the vocabulary");
    ids.push_back(*id);
  });
  return tensor_of_ids(ids);
}

std::string load_text(const std::filesystem::path& file) {
  const auto bytes = files::detail::Bytes::of_file("load_text", file);
  return {reinterpret_cast<const char*>(bytes->all().data()), bytes->size()};
}

WordCorpus load_word_corpus(const std::filesystem::path& folder) {
  WordCorpus corpus;
  const auto read = [&](const char* name) {
    Tensor ids = word_ids(load_text(folder / name), corpus.vocabulary);
    TENDRIL_CHECK(ids.numel() > 0, "load_word_corpus: ", folder / name, " has no words");
    return ids;
  };
  corpus.train = read("train.txt");
  corpus.valid = read("valid.txt");
  corpus.test = read("test.txt");
  return corpus;
}

Tensor batchify(const Tensor& ids, int64_t batch_size) {
  tendril::detail::check_defined(ids, "batchify", "ids");
  TENDRIL_CHECK_AS(ShapeError, ids.dim() == 1, "batchify: ids: got shape ", ids.sizes(), ", expected a vector");
  TENDRIL_CHECK(batch_size >= 1 && batch_size <= ids.size(0), "batchify: batch_size: got ", batch_size, " for ",
                ids.size(0), " ids, expected 1 to ", ids.size(0));
  const int64_t length = ids.size(0) / batch_size;
  const Tensor rows = raw::view(raw::contiguous(raw::narrow(ids, 0, 0, length * batch_size)), {batch_size, length});
  return raw::contiguous(raw::transpose(rows, 0, 1));
}

}  // namespace tendril::data
