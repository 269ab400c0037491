// An IDX file.
#include "fuzz/files.h"
#include "tendril/data/detail/parse.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  try {
    tendril::fuzz::touch(tendril::data::detail::parse_idx(tendril::fuzz::file_of(data, size), "file"));
  } catch (const tendril::Error&) {
  }
  return 0;
}
