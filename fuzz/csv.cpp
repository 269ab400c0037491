// A CSV file, with and without a header: every field is read as text, and all of them as numbers.
#include "fuzz/files.h"
#include "tendril/data/detail/parse.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  for (const bool header : {false, true}) {
    try {
      const auto table =
          tendril::data::detail::parse_csv(tendril::fuzz::file_of(data, size), {.header = header}, "file");
      std::size_t total = 0;
      for (int64_t row = 0; row < table.rows(); ++row) {
        for (int64_t column = 0; column < table.columns(); ++column) total += table.text(row, column).size();
      }
      if (total > size) __builtin_trap();
      tendril::fuzz::touch(table.all_numbers({.missing = 0}));
    } catch (const tendril::Error&) {
    }
  }
  return 0;
}
