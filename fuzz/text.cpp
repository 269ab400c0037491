// Words and characters of a text. What is UTF-8 comes back from its characters as it was.
#include <string>

#include "fuzz/files.h"
#include "tendril/data/text.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  tendril::data::Vocabulary words;
  tendril::fuzz::touch(tendril::data::word_ids(text, words));
  try {
    const auto characters = tendril::data::character_vocabulary(text);
    if (characters.text(tendril::data::character_ids(text, characters)) != text) __builtin_trap();
  } catch (const tendril::Error&) {
  }
  return 0;
}
