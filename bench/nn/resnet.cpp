// ResNet-50: a step of training and an evaluation of a batch, the best of several, as lines "name<TAB>ms", and how much
// memory (MiB) the process had at most while it trained, beyond what it began with:
//   bench_resnet [--threads N] [--batch N] [--size N] [--rounds N] [--channels-last 1]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "bench/flags.h"
#include "tendril/autograd/backward.h"
#include "tendril/autograd/grad_mode.h"
#include "tendril/autograd/ops/loss.h"
#include "tendril/nn/models/resnet.h"
#include "tendril/nn/optim/sgd.h"
#include "tendril/tensor/creation.h"
#include "tendril/tensor/raw.h"

using namespace tendril;

namespace {

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
  int64_t batch = 8, size = 128, rounds = 5;
  bool channels_last = false;
  CLI::App app("ResNet-50: a step of training and an evaluation of a batch");
  bench::add_threads(app);
  app.add_option("--batch", batch, "Images")->check(CLI::Range(1, 1'000'000));
  app.add_option("--size", size, "Of an image, in pixels each way")->check(CLI::Range(1, 1'000'000));
  app.add_option("--rounds", rounds, "The best of so many")->check(CLI::Range(1, 1'000'000));
  app.add_option("--channels-last", channels_last, "In channels-last order");
  CLI11_PARSE(app, argc, argv);
  const double before = mebibytes("VmRSS");
  nn::ResNet<nn::Bottleneck> model = nn::resnet50();
  optim::SGD sgd(model.parameters(), {.lr = 0.01, .momentum = 0.9});
  Tensor x = raw::empty({batch, 3, size, size});
  raw::normal_(x, 0, 1, default_generator());
  if (channels_last) {
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
