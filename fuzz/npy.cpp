// A .npy file.
#include "tendril/tensor/files/detail/npy.h"
#include "fuzz/files.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  try {
    const auto file = tendril::fuzz::file_of(data, size);
    tendril::fuzz::touch(tendril::files::detail::parse_npy(file, file->all(), "file"));
  } catch (const tendril::Error&) {
  }
  return 0;
}
