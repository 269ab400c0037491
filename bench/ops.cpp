// The price of a small operation: ns an operation on 4-float operands, untracked, tracked, and forward + backward a
// node. Where bench_ops_pytorch stands beside it (LibTorch was found), the peer runs in the same run, in turn, and the
// ratio is printed.
//
//   bench_ops                   the table
//   bench_ops --only CASE N     N operations of one case and nothing else, for counting instructions from outside
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "tendril/autograd/ops/pointwise.h"
#include "tendril/tensor/creation.h"
#include "tendril/tensor/tensor.h"

namespace {

using namespace tendril;

constexpr int kNodes = 1000;  // of the chain that is run backward

struct Operands {
  Tensor a = full({4}, 0.5), b = full({4}, 0.25), w = full({4}, 0.5, {.requires_grad = true});
};

void untracked(const Operands& in, int calls) {
  for (int i = 0; i < calls; ++i) Tensor c = in.a + in.b;
}

void tracked(const Operands& in, int calls) {
  for (int i = 0; i < calls; ++i) Tensor c = in.w + in.b;
}

/// `calls` nodes, in chains of kNodes.
void forward_backward(const Operands& in, int calls) {
  for (int done = 0; done < calls; done += kNodes) {
    Tensor c = in.w + in.b;
    for (int i = 1; i < kNodes; ++i) c = c + in.b;
    c.backward(in.b);
  }
}

struct Case {
  const char* name;
  void (*run)(const Operands&, int);
  double ceiling_ns;
};
constexpr Case kCases[] = {
    {"untracked", untracked, 90}, {"tracked", tracked, 190}, {"forward+backward", forward_backward, 350}};

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

double time_ns(const Case& c, const Operands& in) {
  constexpr int calls = 20 * kNodes;
  const auto start = std::chrono::steady_clock::now();
  c.run(in, calls);
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count() / calls;
}

/// The three numbers of the peer; empty where it is not there.
std::vector<double> run_peer(const std::string& program) {
  std::vector<double> values(3);
  FILE* pipe = popen(program.c_str(), "r");
  if (!pipe) return {};
  const int read = std::fscanf(pipe, "%lf %lf %lf", &values[0], &values[1], &values[2]);
  pclose(pipe);
  return read == 3 ? values : std::vector<double>{};
}

}  // namespace

int main(int argc, char** argv) {
  const Operands in;
  if (argc == 4 && std::strcmp(argv[1], "--only") == 0) {
    for (const Case& c : kCases) {
      if (std::strcmp(argv[2], c.name) == 0) {
        c.run(in, std::atoi(argv[3]));
        return 0;
      }
    }
    std::fprintf(stderr, "bench_ops: no case '%s'; expected untracked, tracked or forward+backward\n", argv[2]);
    return 2;
  }

  const auto peer = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "bench_ops_pytorch";
  const bool has_peer = std::filesystem::exists(peer);
  constexpr int rounds = 5;
  std::vector<double> ours[3], theirs[3], ratios[3];
  for (int round = 0; round < rounds; ++round) {  // in turn, so that a drift of the machine meets both
    double now[3];
    for (int i = 0; i < 3; ++i) {
      time_ns(kCases[i], in);
      std::vector<double> times;
      for (int repeat = 0; repeat < 21; ++repeat) times.push_back(time_ns(kCases[i], in));
      ours[i].push_back(now[i] = median(times));
    }
    const auto values = has_peer ? run_peer(peer.string()) : std::vector<double>{};
    for (std::size_t i = 0; i < values.size(); ++i) {
      theirs[i].push_back(values[i]);
      ratios[i].push_back(values[i] / now[i]);
    }
  }

  std::printf(
      "| 4-float add | Tendril, ns | ceiling, ns | LibTorch, ns | LibTorch / Tendril |\n|---|---|---|---|---|\n");
  for (int i = 0; i < 3; ++i) {
    std::printf("| %s | %.0f | %.0f | ", kCases[i].name, median(ours[i]), kCases[i].ceiling_ns);
    if (theirs[i].empty()) {
      std::printf("not installed | |\n");
    } else {
      std::printf("%.0f | %.1f |\n", median(theirs[i]), median(ratios[i]));
    }
  }
}
