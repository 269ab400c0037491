// Four operations, from plain loops to the library's kernel: kernels [--quick] [matmul] [softmax] [layer_norm]
// [convolution]. docs/kernels.md goes through them.
#include <tendril/tensor/threads.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "kernels.h"

int main(int argc, char** argv) {
  const std::vector<std::pair<std::string, bool (*)(bool)>> lessons = {{"matmul", kernels::matmul},
                                                                       {"softmax", kernels::softmax},
                                                                       {"layer_norm", kernels::layer_norm},
                                                                       {"convolution", kernels::convolution}};
  bool quick = false;
  std::vector<std::string> wanted;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const bool known = std::any_of(lessons.begin(), lessons.end(), [&](const auto& l) { return l.first == argument; });
    if (argument == "--quick") {
      quick = true;
    } else if (known) {
      wanted.push_back(argument);
    } else {
      std::fprintf(stderr, "kernels: got '%s', expected --quick, matmul, softmax, layer_norm or convolution\n",
                   argument.c_str());
      return 2;
    }
  }
  tendril::set_num_threads(1);
  bool all = true;
  for (const auto& [name, run] : lessons) {
    if (wanted.empty() || std::find(wanted.begin(), wanted.end(), name) != wanted.end()) all = run(quick) && all;
  }
  return all ? 0 : 1;
}
