// Steps of training of small networks: forward, loss, backward and optimizer, as lines "name<TAB>steps/s":
//   bench_nn [--threads N] [--seconds S] [--only NAME] [--clock processor]
// By CPU time what other programs take does not count (one thread).
// The learning rates are so small that no run converges, whose gradients might become denormal numbers.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <string>
#include <vector>

#include "bench/flags.h"
#include "bench/nn/gpt.h"
#include "tendril/autograd/backward.h"
#include "tendril/autograd/ops/loss.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/nn/activation.h"
#include "tendril/nn/conv.h"
#include "tendril/nn/embedding.h"
#include "tendril/nn/flatten.h"
#include "tendril/nn/linear.h"
#include "tendril/nn/lstm.h"
#include "tendril/nn/optim/adam.h"
#include "tendril/nn/optim/sgd.h"
#include "tendril/nn/pooling.h"
#include "tendril/nn/sequential.h"
#include "tendril/tensor/creation.h"

using namespace tendril;

namespace {

double seconds = 0.4;
bench::Only only;
std::string clock_name = "wall";

double now() {
  timespec time{};
  clock_gettime(clock_name == "processor" ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// Prints one over the median time of a step.
template <class F>
void measure(const char* name, const F& step) {
  if (!only.is(name)) return;
  const auto since = [](double start) { return now() - start; };
  for (const double start = now(); since(start) < seconds / 4;) step();
  std::vector<double> times;
  for (const double start = now(); times.size() < 5 || since(start) < seconds;) {
    const double before = now();
    step();
    times.push_back(since(before));
  }
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  std::printf("%s\t%.1f\n", name, 1 / *middle);
  std::fflush(stdout);
}

template <class Model, class Optimizer>
void train(const char* name, Model& model, Optimizer& optimizer, const Tensor& x, const Tensor& target) {
  measure(name, [&] {
    optimizer.zero_grad();
    cross_entropy(model(x), target).backward();
    optimizer.step();
  });
}

void mlp(const char* name, int64_t inputs, int64_t hidden, int64_t classes, int64_t batch) {
  nn::Sequential model(nn::Linear(inputs, hidden), nn::ReLU(), nn::Linear(hidden, hidden / 2), nn::ReLU(),
                       nn::Linear(hidden / 2, classes));
  optim::Adam adam(model.parameters(), 1e-6);
  train(name, model, adam, rand({batch, inputs}), randint(0, classes, {batch}));
}

struct CharLSTM : nn::Module {
  CharLSTM(int64_t characters, int64_t embedding, int64_t hidden, int64_t layers)
      : table(characters, embedding), lstm(embedding, hidden, {.num_layers = layers}), head(hidden, characters) {
    register_module("table", table);
    register_module("lstm", lstm);
    register_module("head", head);
  }
  Tensor operator()(const Tensor& ids) const { return head(lstm(table(ids)).output).flatten(0, 1); }
  nn::Embedding table;
  nn::LSTM lstm;
  nn::Linear head;
};

void char_lstm(const char* name, int64_t characters, int64_t hidden, int64_t layers, int64_t steps, int64_t batch) {
  CharLSTM model(characters, hidden / 2, hidden, layers);
  optim::SGD sgd(model.parameters(), {.lr = 1e-5});
  train(name, model, sgd, randint(0, characters, {steps, batch}), randint(0, characters, {steps * batch}));
}

void cnn(const char* name, int64_t side, int64_t channels, int64_t batch) {
  nn::Sequential model(nn::Conv2d(1, channels, 3, {.padding = 1}), nn::ReLU(), nn::MaxPool2d(2),
                       nn::Conv2d(channels, 2 * channels, 3, {.padding = 1}), nn::ReLU(), nn::MaxPool2d(2),
                       nn::Flatten(), nn::Linear(2 * channels * (side / 4) * (side / 4), 10));
  optim::SGD sgd(model.parameters(), {.lr = 1e-5, .momentum = 0.9});
  train(name, model, sgd, rand({batch, 1, side, side}), randint(0, 10, {batch}));
}

void gpt(const char* name, int64_t context, int64_t layers, int64_t heads, int64_t width, int64_t batch) {
  bench::GPT model(65, context, layers, heads, width);
  optim::AdamW adam(model.parameters(), {.lr = 1e-6});
  train(name, model, adam, randint(0, 65, {batch, context}), randint(0, 65, {batch * context}));
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Steps of training of small networks");
  bench::add_threads(app);
  only.add_to(app, "this network");
  app.add_option("--seconds", seconds, "How long each network is measured")->check(CLI::Range(0.01, 3600.0));
  app.add_option("--clock", clock_name, "By wall-clock time, or by CPU time of the process")
      ->check(CLI::IsMember({"wall", "processor"}));
  CLI11_PARSE(app, argc, argv);
  manual_seed(1);
  mlp("MLP", 784, 256, 10, 64);
  mlp("MLP, tiny", 4, 8, 2, 1);
  char_lstm("char-LSTM", 65, 128, 1, 32, 16);
  char_lstm("char-LSTM, tiny", 10, 4, 1, 5, 1);
  cnn("CNN", 28, 16, 32);
  cnn("CNN, tiny", 8, 2, 1);
  gpt("GPT", 64, 5, 4, 128, 8);
  gpt("GPT, tiny", 4, 1, 1, 4, 1);
  return only.status();
}
