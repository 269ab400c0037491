// Runs the snippets of the pages one after the other, in a folder of their own for what they write.
#include <cstdio>
#include <exception>
#include <filesystem>

#include "snippets.h"

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
  std::printf("%zu of %d snippets ran, %d failed\n", kSnippets.size(), kCompiled, failed);
  return failed ? 1 : 0;
}
