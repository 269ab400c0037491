// A safetensors file.
#include "fuzz/files.h"
#include "tendril/tensor/files/detail/safetensors_header.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  tendril::FileMetadata metadata;
  try {
    tendril::fuzz::touch(
        tendril::files::detail::parse_safetensors(tendril::fuzz::file_of(data, size), "file", &metadata));
  } catch (const tendril::Error&) {
  }
  return 0;
}
