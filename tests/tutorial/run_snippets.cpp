// Runs the snippets of the pages one after the other, in a folder of their own for what they write. A process may hold
// several workers: those of a snippet are threads of this one.
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>

#include "snippets.h"
#include "tests/rpc/reserved_port.h"

namespace rpc = tendril::rpc;

Workers::Workers(const std::vector<std::string>& names) : others(names.size() - 1) {
  const tendril::test::ReservedPort port;
  const auto options = [&](std::size_t rank) {
    return rpc::InitOptions{.rank = static_cast<rpc::WorkerId>(rank),
                            .world_size = static_cast<int>(names.size()),
                            .master_port = port.number(),
                            .status_signal = false};
  };
  std::vector<std::jthread> joining;
  for (std::size_t rank = 1; rank < names.size(); ++rank) {
    joining.emplace_back([&, rank] { others[rank - 1] = std::make_unique<rpc::Group>(names[rank], options(rank)); });
  }
  rpc::init_rpc(names[0], options(0));
}

Workers::~Workers() {
  std::vector<std::jthread> leaving;
  for (const auto& other : others) leaving.emplace_back([&other] { other->shutdown(); });
  rpc::shutdown();
}

void golden_file(const std::string& name, const std::string& as) {
  std::filesystem::copy_file(std::filesystem::path(TENDRIL_GOLDEN_FILES) / name, as);
}

void cifar10(const std::string& folder) {
  std::filesystem::create_directory(folder);
  for (const char* name : {"data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5"}) {
    std::ofstream(std::filesystem::path(folder) / (std::string(name) + ".bin"), std::ios::binary)
        << std::string(std::size_t{2} * 3073, '\1');
  }
}

int main() {
  const auto folder = std::filesystem::current_path() / "snippets";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directory(folder);
  std::filesystem::current_path(folder);
  int failed = 0;
  for (const Snippet& snippet : kSnippets) {
    std::printf("%s\n", snippet.place);
    std::fflush(stdout);
    try {
      snippet.run();
    } catch (const std::exception& error) {
      std::printf("%s: %s\n", snippet.place, error.what());
      ++failed;
    }
  }
  std::printf("%zu snippets ran, %d failed, %d programs\n", kSnippets.size(), failed, kPrograms);
  return failed ? 1 : 0;
}
