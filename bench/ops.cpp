// Measures the overhead of small operations. Times an addition of 4 floats, in ns: untracked, tracked, and forward +
// backward per node. Times of the other cases vary too much, so only their instructions are counted.
//
//   bench_ops [--peer LABEL PROGRAM ...]  prints the table; alternates with each PROGRAM (pytorch/ops.cpp)
//   bench_ops --list                      prints the names of all cases
//   bench_ops --only CASE N               runs N operations of one case and nothing else, for a profiler
//   bench_ops --each N                    runs N operations of every case, for bench/instructions.sh
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "tendril/autograd/grad_mode.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/tensor/cpu/loops.h"
#include "tendril/tensor/creation.h"
#include "tendril/tensor/tensor.h"

#ifdef __GLIBC__
#include <gnu/libc-version.h>
#endif

namespace {

using namespace tendril;

constexpr int kNodes = 1000;  // of a chain that is run backward

struct Operands {
  Tensor a = full({4}, 0.5), b = full({4}, 1), w = full({4}, 0.5, {.requires_grad = true});
  Tensor a2 = full({4, 4}, 0.5), b2 = full({4, 4}, 0.25), w2 = full({4, 4}, 0.5, {.requires_grad = true});
  Tensor one = full({}, 1);
};

// ---- one operation, on plain tensors and on ones that require a gradient

using BinaryMethod = Tensor (Tensor::*)(const Tensor&) const;
using UnaryMethod = Tensor (Tensor::*)() const;
using Operand = Tensor Operands::*;

template <BinaryMethod op, Operand x, Operand y>
void binary(const Operands& in, int calls) {
  for (int i = 0; i < calls; ++i) Tensor c = ((in.*x).*op)(in.*y);
}
template <UnaryMethod op, Operand x>
void unary(const Operands& in, int calls) {
  for (int i = 0; i < calls; ++i) Tensor c = ((in.*x).*op)();
}

/// `calls` nodes, in chains of kNodes.
template <BinaryMethod op, Operand x, Operand y>
void chain(const Operands& in, int calls) {
  for (int done = 0; done < calls; done += kNodes) {
    Tensor c = ((in.*x).*op)(in.*y);
    for (int i = 1; i < kNodes; ++i) c = (c.*op)(in.*y);
    c.backward(in.*y);
  }
}
/// `calls` graphs of one node: what a chain shares among its nodes is paid by each.
template <UnaryMethod op, Operand g>
void graphs_of_one(const Operands& in, int calls) {
  for (int i = 0; i < calls; ++i) (in.w.*op)().backward(in.*g);
}

// ---- a cell of a recurrent network, as a program writes it

constexpr int64_t kHidden = 4;
constexpr int kSteps = 10;  // between two backward runs

struct Cell {
  Tensor wx, wh, bias, x = full({1, kHidden}, 0.5);
  explicit Cell(bool recorded)
      : wx(full({kHidden, 4 * kHidden}, 0.1, {.requires_grad = recorded})),
        wh(full({kHidden, 4 * kHidden}, 0.1, {.requires_grad = recorded})),
        bias(full({4 * kHidden}, 0.1, {.requires_grad = recorded})) {}

  void step(Tensor& h, Tensor& c) const {
    const auto gates = (x.matmul(wx) + h.matmul(wh) + bias).chunk(4, 1);
    c = gates[1].sigmoid() * c + gates[0].sigmoid() * gates[2].tanh();
    h = gates[3].sigmoid() * c.tanh();
  }
};

/// `calls` steps of the cell, in sequences of kSteps.
template <bool recorded, bool backward>
void lstm(const Operands&, int calls) {
  const Cell cell(recorded);
  for (int done = 0; done < calls; done += kSteps) {
    Tensor h = full({1, kHidden}, 0), c = full({1, kHidden}, 0);
    for (int i = 0; i < kSteps; ++i) cell.step(h, c);
    if constexpr (backward) h.backward(cell.x);
  }
}

struct Case {
  const char* name;
  void (*run)(const Operands&, int);
  double ceiling_ns;
};
using In = Operands;
constexpr int kTimed = 3;  // the first ones, which the peer has too
constexpr Case kCases[] = {
    {"add-untracked", binary<&Tensor::add, &In::a, &In::b>, 90},
    {"add-tracked", binary<&Tensor::add, &In::w, &In::b>, 190},
    {"add-backward", chain<&Tensor::add, &In::w, &In::b>, 350},
    {"mul-untracked", binary<&Tensor::mul, &In::a, &In::b>, 0},
    {"mul-tracked", binary<&Tensor::mul, &In::w, &In::b>, 0},
    {"mul-backward", chain<&Tensor::mul, &In::w, &In::b>, 0},
    {"exp-untracked", unary<&Tensor::exp, &In::a>, 0},
    {"exp-tracked", unary<&Tensor::exp, &In::w>, 0},
    {"exp-backward", graphs_of_one<&Tensor::exp, &In::b>, 0},
    {"matmul-untracked", binary<&Tensor::matmul, &In::a2, &In::b2>, 0},
    {"matmul-tracked", binary<&Tensor::matmul, &In::w2, &In::b2>, 0},
    {"matmul-backward", chain<&Tensor::matmul, &In::w2, &In::b2>, 0},
    {"sum-untracked", unary<&Tensor::sum, &In::a>, 0},
    {"sum-tracked", unary<&Tensor::sum, &In::w>, 0},
    {"sum-backward", graphs_of_one<&Tensor::sum, &In::one>, 0},
    {"lstm-untracked", lstm<false, false>, 0},
    {"lstm-tracked", lstm<true, false>, 0},
    {"lstm-backward", lstm<true, true>, 0},
};

/// Runs one case. bench/instructions.sh counts the instructions of this symbol: it must not be inlined or cloned.
[[gnu::noinline, gnu::used]] void run_counted(const Case& c, const Operands& in, int calls) asm("bench_ops_counted");
void run_counted(const Case& c, const Operands& in, int calls) { c.run(in, calls); }

/// Prints one line with everything, besides the sources, that instruction counts depend on.
void print_configuration() {
#ifdef __clang__
  const char* const compiler = __VERSION__;
#else
  const char* const compiler = "GCC " __VERSION__;
#endif
#ifdef __GLIBC__
  const char* const libc = gnu_get_libc_version();
#else
  const char* const libc = "unknown";
#endif
  const char* const loops = cpu::all_loops().size() > 1 ? "AVX2" : "baseline";
  std::printf("%s, %s, glibc %s, %s loops\n", compiler, TENDRIL_BENCH_FLAGS, libc, loops);
}

double median(std::vector<double> values) {  // of an odd number
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

/// Returns "median [minimum..maximum]", rounded to integers.
std::string spread(const std::vector<double>& values) {
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  char text[96];
  std::snprintf(text, sizeof(text), "%.0f [%.0f..%.0f]", median(values), *least, *most);
  return text;
}

double time_ns(const Case& c, const Operands& in) {
  constexpr int calls = 20 * kNodes;
  const auto start = std::chrono::steady_clock::now();
  c.run(in, calls);
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count() / calls;
}

/// The three numbers of the peer; empty where it is not there.
std::vector<double> run_peer(const std::string& program) {
  std::vector<double> values(kTimed);
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
    std::fprintf(stderr, "bench_ops: no case '%s'; --list names them\n", argv[2]);
    return 2;
  }
  if (argc == 3 && std::strcmp(argv[1], "--each") == 0) {
    print_configuration();
    for (const Case& c : kCases) {
      c.run(in, kNodes);  // fills caches and the allocator's free lists
      run_counted(c, in, std::atoi(argv[2]));
      std::puts(c.name);
    }
    return 0;
  }
  if (argc == 2 && std::strcmp(argv[1], "--list") == 0) {
    for (const Case& c : kCases) std::puts(c.name);
    return 0;
  }
  struct Peer {
    std::string label, program;
    std::vector<double> times[kTimed], ratios[kTimed];
  };
  std::vector<Peer> peers;
  for (int i = 1; i < argc; i += 3) {
    if (std::strcmp(argv[i], "--peer") != 0 || i + 2 >= argc) {
      std::fprintf(stderr, "usage: bench_ops [--list | --only CASE N | --each N | --peer LABEL PROGRAM ...]\n");
      return 2;
    }
    peers.push_back({argv[i + 1], argv[i + 2], {}, {}});
  }

  constexpr int rounds = 5;
  std::vector<double> ours[kTimed];
  for (int round = 0; round < rounds; ++round) {  // in turn, so that a drift of the machine meets all
    double now[kTimed];
    for (int i = 0; i < kTimed; ++i) {
      time_ns(kCases[i], in);
      std::vector<double> times;
      for (int repeat = 0; repeat < 21; ++repeat) times.push_back(time_ns(kCases[i], in));
      ours[i].push_back(now[i] = median(times));
    }
    for (Peer& peer : peers) {
      const auto values = run_peer(peer.program);
      for (std::size_t i = 0; i < values.size(); ++i) {
        peer.times[i].push_back(values[i]);
        peer.ratios[i].push_back(values[i] / now[i]);
      }
    }
  }

  std::printf("| operation, ns, median [range] | Tendril | ceiling |");
  for (const Peer& peer : peers) std::printf(" %s | speedup |", peer.label.c_str());
  std::printf("\n|---|---|---|");
  for (std::size_t i = 0; i < peers.size(); ++i) std::printf("---|---|");
  std::printf("\n");
  for (int i = 0; i < kTimed; ++i) {
    std::printf("| %s | %s | %.0f |", kCases[i].name, spread(ours[i]).c_str(), kCases[i].ceiling_ns);
    for (const Peer& peer : peers) {
      if (peer.times[i].empty()) {
        std::printf(" failed | |");
      } else {
        std::printf(" %s | %.1f |", spread(peer.times[i]).c_str(), median(peer.ratios[i]));
      }
    }
    std::printf("\n");
  }
}
