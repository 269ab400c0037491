// A .npz file, with members that are deflated and such that are not. Checksums are not believed to hold off anybody:
// each member is read once with and once without them.
#include "fuzz/files.h"
#include "tendril/tensor/files/detail/npy.h"
#include "tendril/tensor/files/detail/zip.h"

using namespace tendril::files::detail;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  const auto file = tendril::fuzz::file_of(data, size);
  try {
    tendril::fuzz::touch(parse_npz(file, "file"));
  } catch (const tendril::Error&) {
  }
  try {
    const ZipReader archive(file, "file");
    for (const ZipReader::Member& member : archive.members()) {
      const auto content = archive.read(member, ZipReader::Checksum::trust);
      tendril::fuzz::touch(parse_npy(content.owner, content.bytes, "member"));
    }
  } catch (const tendril::Error&) {
  }
  return 0;
}
