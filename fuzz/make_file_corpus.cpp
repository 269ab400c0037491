// Writes the seed inputs of the targets of file readers: fuzz_make_file_corpus fuzz/corpus tests/tensor/data/files
// Small files of our own writers, and such of other programs' as tests/files_golden.py makes.
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

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

/// An input of the target `print`: options, then a tensor (fuzz/print.cpp).
struct Printed {
  int16_t precision = 4;
  int64_t threshold = 1000, edgeitems = 3, linewidth = 80;
  uint8_t sci_mode = 0, dtype = 0;
  std::string sizes = {};
  uint8_t view = 0;
  template <class T>
  std::string with(const std::vector<T>& elements) const {
    std::string bytes;
    const auto add = [&](const auto& value) { bytes.append(reinterpret_cast<const char*>(&value), sizeof value); };
    add(precision), add(threshold), add(edgeitems), add(linewidth), add(sci_mode), add(dtype);
    add(static_cast<uint8_t>(sizes.size())), add(view);
    bytes += sizes;
    for (const T& element : elements) add(element);
    return bytes;
  }
};

void write_printed(const fs::path& folder) {
  fs::create_directories(folder);
  const double huge = 1e300, nan = std::nan("");
  write(folder / "matrix", Printed{.sizes = "\3\2"}.with(std::vector<float>{1, -2.5F, 1e-3F, 4, 5, 6}));
  write(folder / "huge_and_nan", Printed{.dtype = 1, .sizes = "\5"}.with(std::vector<double>{huge, nan, -huge, 0, 1}));
  write(folder / "whole", Printed{.linewidth = 12, .dtype = 1, .sizes = "\6"}.with(std::vector<double>(6, 3)));
  write(folder / "summary", Printed{.threshold = 0, .edgeitems = 1, .dtype = 2, .sizes = "\5\3", .view = 1}.with(
                                std::vector<int64_t>{7, INT64_MIN, INT64_MAX}));
  write(folder / "expanded",
        Printed{.threshold = 0, .dtype = 3, .sizes = "\4", .view = 0xfe}.with(std::vector<int>{-3}));
  write(folder / "bools", Printed{.dtype = 5, .sizes = "\2\2"}.with(std::vector<uint8_t>{1, 0, 2, 0}));
  write(folder / "half",
        Printed{.precision = 0, .sci_mode = 1, .dtype = 6, .sizes = "\2"}.with(std::vector<short>{1, 2}));
  write(folder / "number", Printed{.precision = 100, .sci_mode = 2, .dtype = 1}.with(std::vector<double>{-huge}));
  write(folder / "no_edges",
        Printed{.threshold = 0, .edgeitems = 0, .linewidth = 0, .sizes = "\3"}.with(std::vector<float>{1, 2, 3}));
  write(folder / "empty", Printed{.sizes = std::string("\2\0\3", 3)}.with(std::vector<float>{}));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return std::fprintf(stderr, "usage: %s CORPUS GOLDEN_FILES\n", argv[0]), 2;
  const fs::path corpus = argv[1], golden = argv[2];
  for (const char* target : {"safetensors", "index", "npy", "npz", "pickle", "pytorch"}) {
    fs::create_directories(corpus / target);
  }
  write_printed(corpus / "print");
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
