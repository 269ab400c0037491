// Training steps: ResNet-50 on 224x224 images, batch 64 (TF32 convolutions, or bfloat16 by Autocast), a GPT of 124
// million parameters in bfloat16, an LSTM language model, a small network as usual and recorded (cuda::Graph).
// bench/cuda.sh runs it beside bench/pytorch/gpu.py and makes a table.
//   bench_cuda_training [--only TEXT] [--profile 1]
// --profile: one step of each, for a profiler that begins where it is told: ncu --profile-from-start off ...
#include <cuda_profiler_api.h>

#include <iostream>
#include <optional>
#include <string>

#include "bench/cuda/timing.h"
#include "bench/flags.h"
#include "bench/nn/gpt.h"
#include "tendril/autograd/autocast.h"
#include "tendril/autograd/ops/loss.h"
#include "tendril/nn/activation.h"
#include "tendril/nn/embedding.h"
#include "tendril/nn/linear.h"
#include "tendril/nn/lstm.h"
#include "tendril/nn/models/resnet.h"
#include "tendril/nn/optim/adam.h"
#include "tendril/nn/optim/sgd.h"
#include "tendril/nn/sequential.h"
#include "tendril/tensor/creation.h"

using namespace tendril;

namespace {

constexpr Device kGPU{DeviceType::cuda, 0};

bench::Only only;
bool profile = false;

/// Milliseconds of a step; on standard error, what it takes of the device's memory.
void measure(const std::string& name, const std::function<void()>& step) {
  if (!only.is_part_of(name)) return;
  if (profile) {
    for (int i = 0; i < 3; ++i) step();
    cuda::synchronize();
    cudaProfilerStart();
    step();
    cuda::synchronize();
    cudaProfilerStop();
    return;
  }
  cuda::empty_cache();
  cuda::reset_peak_memory();
  bench::report("training", name, bench::median_ms(step, 3, 7), 0);
  const int64_t calls = cuda::memory_stats().driver_calls;
  for (int i = 0; i < 5; ++i) step();
  cuda::synchronize();
  std::cerr << name << ": peak " << cuda::memory_stats().peak_bytes / 1000000
            << " MB, driver calls in 5 warm steps: " << cuda::memory_stats().driver_calls - calls << '\n';
}

template <class Model, class Optimizer>
std::function<void()> step_of(Model& model, Optimizer& optimizer, const Tensor& x, const Tensor& target, bool mixed) {
  return [&model, &optimizer, x, target, mixed] {
    optimizer.zero_grad();
    Tensor loss;
    {
      std::optional<autograd::Autocast> autocast;
      if (mixed) autocast.emplace(kBFloat16);
      loss = cross_entropy(model(x), target);
    }
    loss.backward();
    optimizer.step();
  };
}

void resnet50(int64_t batch, MemoryFormat format, bool mixed) {
  nn::ResNet model = nn::resnet50();
  model.to(format);
  optim::SGD sgd(model.parameters(), {.lr = 0.1, .momentum = 0.9});
  const Tensor images = randn({batch, 3, 224, 224}).contiguous(format), labels = randint(0, 1000, {batch});
  measure("ResNet-50, batch " + std::to_string(batch) + (mixed ? ", bfloat16" : "") +
              (format == MemoryFormat::channels_last ? ", channels-last" : ""),
          step_of(model, sgd, images, labels, mixed));
}

void gpt() {
  bench::GPT model(50304, 1024, 12, 12, 768);
  optim::AdamW adam(model.parameters(), 1e-4);
  measure("GPT, 12 layers of 768, 8x1024, bfloat16",
          step_of(model, adam, randint(0, 50304, {8, 1024}), randint(0, 50304, {8 * 1024}), true));
}

struct LanguageModel : nn::Module {
  LanguageModel(int64_t words, int64_t width)
      : table(words, width), lstm(width, width, {.num_layers = 2}), head(width, words) {
    register_module("table", table);
    register_module("lstm", lstm);
    register_module("head", head);
  }
  Tensor operator()(const Tensor& ids) const { return head(lstm(table(ids)).output).flatten(0, 1); }
  nn::Embedding table;
  nn::LSTM lstm;
  nn::Linear head;
};

void language_model() {
  LanguageModel model(10000, 650);
  optim::SGD sgd(model.parameters(), 1e-3);
  measure("LSTM 650x2, 35 steps of 20, 10,000 words",
          step_of(model, sgd, randint(0, 10000, {35, 20}), randint(0, 10000, {35 * 20}), false));
}

void small_network() {
  nn::Sequential model(nn::Linear(784, 256), nn::ReLU(), nn::Linear(256, 128), nn::ReLU(), nn::Linear(128, 10));
  optim::SGD sgd(model.parameters(), 1e-3);
  const auto step = step_of(model, sgd, rand({64, 784}), randint(0, 10, {64}), false);
  measure("MLP 784-256-128-10, batch 64", step);
  step();  // once as usual, whatever --only says
  cuda::Graph graph;
  graph.capture(step);
  measure("MLP 784-256-128-10, batch 64, recorded", [&] { graph.replay(); });
}

/// Many small tensors: what a step costs when arithmetic does not.
void adam_steps() {
  std::vector<Tensor> parameters;
  for (int i = 0; i < 200; ++i) {
    parameters.push_back(randn({64, 65}, {.requires_grad = true}));
    parameters.back().set_grad(randn({64, 65}));
  }
  optim::Adam adam(parameters, {.lr = 1e-3});
  measure("Adam step of 200 small tensors", [&] { adam.step(); });
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Training steps on a CUDA device");
  only.add_to(app, "steps whose names have this in them");
  app.add_option("--profile", profile, "One step of each, for a profiler");
  CLI11_PARSE(app, argc, argv);
  try {
    if (!cuda::is_available()) {
      std::cerr << "no CUDA device: " << cuda::why_unavailable() << '\n';
      return 0;
    }
    set_default_device(kGPU);
    adam_steps();
    resnet50(64, MemoryFormat::contiguous, false);
    resnet50(64, MemoryFormat::channels_last, false);
    resnet50(64, MemoryFormat::channels_last, true);
    gpt();
    language_model();
    small_network();
    return only.status();
  } catch (const std::exception& error) {
    std::cerr << "error: " << error.what() << '\n';
    return 1;
  }
}
