// Reading and writing files of tensors, beside what the system needs for as many bytes: one line a case, median of
// several runs. bench_files FOLDER [MIB]; bench/files.sh puts the Python packages beside it. The file stays in FOLDER
// for them.
#include <fcntl.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "tendril/tensor/files/numpy.h"
#include "tendril/tensor/files/safetensors.h"
#include "tendril/tensor/raw.h"

using namespace tendril;

namespace {

using Clock = std::chrono::steady_clock;
double mib = 256;

void measure(const char* name, const std::function<void()>& f) {
  std::vector<double> times;
  for (int run = 0; run < 6; ++run) {
    const auto start = Clock::now();
    f();
    if (run > 0) times.push_back(std::chrono::duration<double, std::milli>(Clock::now() - start).count());
  }
  std::ranges::nth_element(times, times.begin() + 2);
  std::printf("%s\t%.2f ms\t%.2f GB/s\n", name, times[2], mib * 1.048576 / times[2]);
  std::fflush(stdout);
}

/// The bytes of a file into memory that was written to before, as fast as the page cache gives them.
void read_all(const std::string& file, std::vector<char>& into) {
  const int descriptor = ::open(file.c_str(), O_RDONLY);
  std::size_t got = 0;
  while (got < into.size()) {
    const ssize_t count = ::read(descriptor, into.data() + got, into.size() - got);
    if (count <= 0) break;
    got += static_cast<std::size_t>(count);
  }
  ::close(descriptor);
}

void write_all(const std::string& file, const std::vector<char>& bytes) {
  const int descriptor = ::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
  for (std::size_t put = 0; put < bytes.size();) {
    const ssize_t count = ::write(descriptor, bytes.data() + put, bytes.size() - put);
    if (count <= 0) break;
    put += static_cast<std::size_t>(count);
  }
  ::fsync(descriptor);
  ::close(descriptor);
}

}  // namespace

int main(int argc, char** argv) {
  std::string folder;
  CLI::App app("Weights into files and out of them");
  app.add_option("folder", folder, "Where they are written")->required()->check(CLI::ExistingDirectory);
  app.add_option("mib", mib, "How many MiB")->check(CLI::Range(1.0, 65536.0));
  CLI11_PARSE(app, argc, argv);
  const std::string file = folder + "/bench.safetensors", npz = folder + "/bench.npz";
  StateDict dict;
  std::vector<Tensor> targets;  // a model's parameters
  const auto elements = static_cast<int64_t>(mib * (1 << 20) / 4 / 64);
  for (int i = 0; i < 64; ++i) {
    dict.insert("layer" + std::to_string(i) + ".weight", raw::full({elements}, i));
    targets.push_back(raw::zeros({elements}));
  }
  save_safetensors(dict, file);
  std::vector<char> buffer(std::filesystem::file_size(file), 1);
  measure("read(2) of the file, the limit", [&] { read_all(file, buffer); });
  measure("load_safetensors", [&] { load_safetensors(file); });
  measure("load_safetensors, copied into parameters", [&] {
    const StateDict loaded = load_safetensors(file);
    std::size_t i = 0;
    for (const auto& [name, tensor] : loaded) raw::copy_(targets[i++], tensor);
  });
  save_npz(dict, npz);
  measure("load_npz (checksums)", [&] { load_npz(npz); });
  measure("write(2) and fsync of as much, the limit", [&] { write_all(folder + "/bench.raw", buffer); });
  measure("save_safetensors", [&] { save_safetensors(dict, file); });
  std::filesystem::remove(folder + "/bench.raw");
  std::filesystem::remove(npz);
}
