// ResNet-50: a step of training and an evaluation of a batch, the best of several, as lines "name<TAB>ms", and how much
// memory (MiB) the process had at most while it trained, beyond what it began with:
//   bench_resnet [--threads N] [--batch N] [--size N] [--rounds N] [--channels-last 1]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "tendril/autograd/backward.h"
#include "tendril/autograd/grad_mode.h"
#include "tendril/autograd/ops/loss.h"
#include "tendril/nn/models/resnet.h"
#include "tendril/nn/optim/sgd.h"
#include "tendril/tensor/creation.h"
#include "tendril/tensor/raw.h"
#include "tendril/tensor/threads.h"

using namespace tendril;

namespace {

int64_t option(int argc, char** argv, const std::string& name, int64_t otherwise) {
  for (int i = 1; i + 1 < argc; ++i) {
    if (argv[i] == name) return std::atoll(argv[i + 1]);
  }
  return otherwise;
}

/// Of /proc/self/status, in MiB: VmRSS, what is there now, or VmHWM, the most there was.
double mebibytes(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind(field + ":", 0) == 0) return std::atof(line.c_str() + field.size() + 1) / 1024;
  }
  return 0;
}

template <class F>
void time(const char* name, int64_t rounds, const F& f) {
  using Clock = std::chrono::steady_clock;
  f();
  double best = 1e30;
  for (int64_t i = 0; i < rounds; ++i) {
    const auto start = Clock::now();
    f();
    best = std::min(best, std::chrono::duration<double, std::milli>(Clock::now() - start).count());
  }
  std::printf("%s\t%.1f\n", name, best);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  set_num_threads(static_cast<int>(option(argc, argv, "--threads", 1)));
  const int64_t batch = option(argc, argv, "--batch", 8), size = option(argc, argv, "--size", 128),
                rounds = option(argc, argv, "--rounds", 5);
  const double before = mebibytes("VmRSS");
  nn::ResNet<nn::Bottleneck> model = nn::resnet50();
  optim::SGD sgd(model.parameters(), {.lr = 0.01, .momentum = 0.9});
  Tensor x = raw::empty({batch, 3, size, size});
  raw::normal_(x, 0, 1, default_generator());
  if (option(argc, argv, "--channels-last", 0)) {
    x = x.to(MemoryFormat::channels_last);
    model.to(MemoryFormat::channels_last);
  }
  const Tensor target = raw::zeros({batch}, kInt64);
  time("train", rounds, [&] {
    sgd.zero_grad();
    cross_entropy(model(x), target).backward();
    sgd.step();
  });
  std::printf("train, peak MiB\t%.0f\n", mebibytes("VmHWM") - before);
  model.eval();
  const NoGrad no_grad;
  time("eval", rounds, [&] { model(x); });
  model.fuse_conv_bn();
  time("eval, fused", rounds, [&] { model(x); });
}
