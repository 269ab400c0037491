// Fails, as a test does, if the samples of the named family find a wrong derivative, and says which did.
#include <iostream>
#include <string_view>

#include "tests/autograd/samples/samples.h"

int main(int argc, char** argv) {
  for (const auto& family : tendril::samples::families()) {
    if (argc != 2 || family.name != std::string_view(argv[1])) continue;
    for (const auto& sample : family.samples()) {
      if (const std::string problem = check(sample); !problem.empty()) {
        std::cout << "found: " << problem << "\n";
        return 1;
      }
    }
    std::cerr << "nothing was found\n";
    return 0;
  }
  std::cerr << "usage: " << argv[0] << " FAMILY\n";
  return 0;  // so that a row which names no family counts as not found
}
