// Four operations, from plain loops to the library's kernel. docs/kernels.md explains the versions.
#include <tendril/tensor/threads.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "../apps/support/flags.h"
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
  std::string device = "cpu";
  std::vector<std::string> names, wanted;
  for (const auto& [name, run] : on_cpu) names.push_back(name);
  examples::Flags flags("kernels", "Four operations, from plain loops to the library's kernel (docs/kernels.md)");
  flags.add("operation", wanted, names, "Run only these operations");
  flags.add("--quick", quick, "Use small sizes, for tests");
  flags.add_device(device, "Device: cpu or cuda");
  const auto finish = [&] {
    if (device != "cpu" && device != "cuda" && device != "cuda:0")
      throw examples::FlagError("--device", "expected cpu or cuda (the first device), got " + device);
  };
  if (const auto status = flags.parse(argc, argv, finish)) return *status;

  const Lessons& lessons = device == "cpu" ? on_cpu : on_cuda;
  if (lessons.empty()) throw std::runtime_error("this build has no kernels for CUDA");
  tendril::set_num_threads(1);
  bool all = true;
  for (const auto& [name, run] : lessons) {
    if (wanted.empty() || std::find(wanted.begin(), wanted.end(), name) != wanted.end()) all = run(quick) && all;
  }
  return all ? 0 : 1;
} catch (const std::exception& e) {
  std::fprintf(stderr, "error: %s\n", e.what());
  return 1;
}
