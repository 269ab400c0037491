// A training run that saves a checkpoint after every step and continues from an existing one: train FILE STEPS
// Ends with status 0 when STEPS steps are done. tests/nn/checkpoint_test.cpp kills it in the middle of saves.
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "tendril/autograd/ops/pointwise.h"
#include "tendril/nn/batch_norm.h"
#include "tendril/nn/checkpoint.h"
#include "tendril/nn/dropout.h"
#include "tendril/nn/linear.h"
#include "tendril/nn/optim/adam.h"
#include "tendril/tensor/creation.h"
#include "tests/file_calls.h"
#include "tests/seed.h"

using namespace tendril;
using tendril::testing::test_seed;

namespace {

struct Net : nn::Module {
  nn::Linear first{12, 12};
  nn::BatchNorm2d norm{3};
  nn::Dropout dropout{0.3};
  nn::Linear second{12, 2};

  Net() {
    register_module("first", first);
    register_module("norm", norm);
    register_module("dropout", dropout);
    register_module("second", second);
  }
  Tensor forward(const Tensor& x) {
    const Tensor y = norm(first(x).reshape({-1, 3, 2, 2})).relu();
    return second(dropout(y.flatten(1)));
  }
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return std::fprintf(stderr, "usage: %s FILE STEPS\n", argv[0]), 2;
  const std::filesystem::path file = argv[1];
  const int64_t steps = std::atoll(argv[2]);
  manual_seed(test_seed());
  Net net;
  optim::Adam adam(net.parameters(), {.lr = 0.01, .amsgrad = true});
  int64_t step = 0;
  double average = 0;
  const nn::CheckpointParts parts = {
      {"model", net}, {"optimizer", adam}, {"generator", default_generator()}, {"step", step}, {"average", average}};
  if (std::filesystem::exists(file)) nn::load_checkpoint(file, parts);
  while (step < steps) {
    const Tensor x = randn({8, 12});
    adam.zero_grad();
    const Tensor loss = (net.forward(x) - x.slice(1, 0, 2)).square().mean();
    loss.backward();
    adam.step();
    average = 0.9 * average + 0.1 * loss.item<double>();
    if (step % 10 == 0) adam.set_lr(adam.lr() * 0.99);
    ++step;
    nn::save_checkpoint(file, parts);
  }
}
