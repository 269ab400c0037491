// A whole .pt file.
#include "tendril/tensor/files/pytorch.h"

#include "fuzz/files.h"
#include "tendril/tensor/files/detail/pytorch_archive.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  tendril::FileMetadata texts;
  try {
    tendril::fuzz::touch(tendril::files::detail::parse_pytorch(tendril::fuzz::file_of(data, size), "file", &texts));
  } catch (const tendril::Error&) {
  }
  return 0;
}
