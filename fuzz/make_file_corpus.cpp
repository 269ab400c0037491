// Writes the seed inputs of the targets of file readers: fuzz_make_file_corpus fuzz/corpus tests/tensor/data/files
// Small files of our own writers, and such of other programs' as tests/files_golden.py makes.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "tendril/tensor/files/detail/bytes.h"
#include "tendril/tensor/files/detail/safetensors_header.h"
#include "tendril/tensor/files/detail/zip.h"
#include "tendril/tensor/files/numpy.h"
#include "tendril/tensor/files/safetensors.h"
#include "tendril/tensor/raw.h"

using namespace tendril;
namespace fs = std::filesystem;

namespace {

void write(const fs::path& file, const std::string& bytes) {
  std::ofstream out(file, std::ios::binary);
  out << bytes;
  if (!out.flush()) throw std::runtime_error("cannot write " + file.string());
}

/// The pickle in a .pt file.
std::string pickle_of(const fs::path& file) {
  using files::detail::ZipReader;
  const ZipReader archive(files::detail::Bytes::of_file("make_file_corpus", file), file.string());
  for (const ZipReader::Member& member : archive.members()) {
    if (!member.name.ends_with("/data.pkl")) continue;
    const auto bytes = archive.read(member, ZipReader::Checksum::trust).bytes;
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  throw std::runtime_error(file.string() + " has no pickle");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return std::fprintf(stderr, "usage: %s CORPUS GOLDEN_FILES\n", argv[0]), 2;
  const fs::path corpus = argv[1], golden = argv[2];
  for (const char* target : {"safetensors", "index", "npy", "npz", "pickle", "pytorch"}) {
    fs::create_directories(corpus / target);
  }
  const StateDict dict{{"a.weight", raw::ones({2, 3})},
                       {"a.bias", raw::zeros({2}, kFloat16)},
                       {"step", raw::scalar(7, kInt64)},
                       {"mask", raw::ones({3}, kBool)},
                       {"empty", raw::zeros({0, 4})}};
  save_safetensors(dict, corpus / "safetensors" / "five", {.metadata = {{"format", "pt"}, {"by", "tendril"}}});
  save_safetensors({}, corpus / "safetensors" / "none");
  write(corpus / "index" / "two_files", files::detail::write_index({{"a", "model-1.safetensors"}, {"b", "x"}}, 24));
  write(corpus / "index" / "other_folder", R"({"weight_map": {"a": "../x", "b": "/etc/passwd"}})");
  save_npz(dict, corpus / "npz" / "ours");
  const auto overwrite = fs::copy_options::overwrite_existing;
  for (const char* name : {"stored.npz", "compressed.npz"})
    fs::copy_file(golden / name, corpus / "npz" / name, overwrite);
  for (const char* name : {"float32.npy", "fortran.npy", "big_endian.npy", "version2.npy", "bool.npy", "scalar.npy"}) {
    fs::copy_file(golden / name, corpus / "npy" / name, overwrite);
  }
  for (const char* name : {"nested.pt", "protocol4.pt", "one_tensor.pt", "runs_code.pt", "itself.pt", "legacy.pt"}) {
    fs::copy_file(golden / name, corpus / "pytorch" / name, overwrite);
    if (std::string(name) != "legacy.pt") write(corpus / "pickle" / name, pickle_of(golden / name));
  }
}
