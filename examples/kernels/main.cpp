// Four operations, from plain loops to the library's kernel: kernels [--quick] [--device cuda] [matmul] [softmax]
// [layer_norm] [convolution]. docs/kernels.md goes through them.
#include <tendril/tensor/threads.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "kernels.h"
#ifdef KERNELS_ON_CUDA
#include "cuda/lessons.h"
#endif

namespace {

using Lessons = std::vector<std::pair<std::string, bool (*)(bool)>>;

const Lessons on_cpu = {{"matmul", kernels::matmul},
                        {"softmax", kernels::softmax},
                        {"layer_norm", kernels::layer_norm},
                        {"convolution", kernels::convolution}};
#ifdef KERNELS_ON_CUDA
const Lessons on_cuda = {{"matmul", kernels::on_cuda::matmul},
                         {"softmax", kernels::on_cuda::softmax},
                         {"layer_norm", kernels::on_cuda::layer_norm},
                         {"convolution", kernels::on_cuda::convolution}};
#else
const Lessons on_cuda;
#endif

}  // namespace

int main(int argc, char** argv) try {
  bool quick = false;
  const Lessons* lessons = &on_cpu;
  std::vector<std::string> wanted;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const bool known = std::any_of(on_cpu.begin(), on_cpu.end(), [&](const auto& l) { return l.first == argument; });
    if (argument == "--quick") {
      quick = true;
    } else if (argument == "--device" && i + 1 < argc &&
               (argv[i + 1] == std::string("cpu") || argv[i + 1] == std::string("cuda"))) {
      lessons = argv[++i] == std::string("cuda") ? &on_cuda : &on_cpu;
    } else if (known) {
      wanted.push_back(argument);
    } else {
      std::fprintf(
          stderr,
          "kernels: got '%s', expected --quick, --device cpu or cuda, matmul, softmax, layer_norm or convolution\n",
          argument.c_str());
      return 2;
    }
  }
  if (lessons->empty()) {
    std::fprintf(stderr, "kernels: --device cuda: this build has no CUDA backend\n");
    return 2;
  }
  tendril::set_num_threads(1);
  bool all = true;
  for (const auto& [name, run] : *lessons) {
    if (wanted.empty() || std::find(wanted.begin(), wanted.end(), name) != wanted.end()) all = run(quick) && all;
  }
  return all ? 0 : 1;
} catch (const std::exception& e) {
  std::fprintf(stderr, "kernels: %s\n", e.what());
  return 1;
}
