// A PNG file, read in every mode. Without the library that reads them, the same error each time.
#include "fuzz/files.h"
#include "tendril/data/detail/parse.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  using namespace tendril::data;
  const auto file = tendril::fuzz::file_of(data, size);
  try {
    const detail::Pixels pixels = detail::decode_png(file->all(), {.max_pixels = 1 << 16}, "file");
    for (const ImageMode mode : {ImageMode::rgb, ImageMode::gray, ImageMode::unchanged}) {
      tendril::fuzz::touch(detail::tensor_of(pixels, mode));
    }
  } catch (const tendril::Error&) {
  }
  return 0;
}
