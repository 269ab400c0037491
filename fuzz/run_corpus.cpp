// Runs a target without libFuzzer: on each file of the folder that is named, on each beginning of it, and on it with
// each of its bytes changed in two ways.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size);

namespace {

void run(const std::string& input) {
  // Of exactly this size, so that AddressSanitizer sees who reads beyond it.
  const std::vector<unsigned char> exact(input.begin(), input.end());
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return std::fprintf(stderr, "usage: %s FOLDER\n", argv[0]), 2;
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1])) {
    std::ifstream file(entry.path(), std::ios::binary);
    std::string input{std::istreambuf_iterator<char>(file), {}};
    run(input);
    const std::size_t count = input.size() < 4096 ? input.size() : 4096;
    for (std::size_t size = 0; size < count; ++size) run(input.substr(0, size));
    for (std::size_t at = 0; at < count; ++at) {
      const char was = input[at];
      for (const int flip : {0xff, 0x01}) {
        input[at] = static_cast<char>(was ^ flip);
        run(input);
      }
      input[at] = was;
    }
    ++files;
  }
  std::printf("%d files\n", files);
  return files > 0 ? 0 : 1;
}
