// Records of CIFAR-10 and of CIFAR-100: each input is read as both. (Inputs of the corpus are mostly of other lengths
// than records: each is also read as often as it takes to fill two.)
#include "fuzz/files.h"
#include "tendril/data/detail/parse.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  std::vector<uint8_t> filled;
  for (std::size_t i = 0; size > 0 && i < 2 * 3074; ++i) filled.push_back(data[i % size]);
  for (const int64_t labels : {1, 2}) {
    for (const bool fill : {false, true}) {
      const auto file =
          fill ? tendril::fuzz::file_of(filled.data(), filled.size()) : tendril::fuzz::file_of(data, size);
      try {
        const auto records = tendril::data::detail::parse_cifar(file, labels, "file");
        tendril::fuzz::touch(records.images);
        tendril::fuzz::touch(records.labels);
      } catch (const tendril::Error&) {
      }
    }
  }
  return 0;
}
