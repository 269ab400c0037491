// Succeeds if the samples of the named family find a wrong derivative, and says which did.
#include <iostream>
#include <string_view>

#include "tests/autograd/samples/samples.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: " << argv[0] << " FAMILY\n";
    return 2;
  }
  for (const auto& family : tendril::samples::families()) {
    if (family.name != std::string_view(argv[1])) continue;
    for (const auto& sample : family.samples()) {
      if (const std::string problem = check(sample); !problem.empty()) {
        std::cout << "found: " << problem << "\n";
        return 0;
      }
    }
    std::cerr << "the wrong derivative was not found\n";
    return 1;
  }
  std::cerr << "no family '" << argv[1] << "'\n";
  return 2;
}
