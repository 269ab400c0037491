// Training steps: ResNet-50 on 224x224 images, batch 64, TF32 convolutions, SGD with momentum. bench/cuda.sh runs it
// beside bench/pytorch/gpu.py and makes a table.
#include <iostream>

#include "bench/cuda/timing.h"
#include "tendril/autograd/ops/loss.h"
#include "tendril/nn/models/resnet.h"
#include "tendril/nn/optim/adam.h"
#include "tendril/nn/optim/sgd.h"
#include "tendril/tensor/creation.h"

using namespace tendril;

namespace {

constexpr Device kGPU{DeviceType::cuda, 0};

void resnet50(int64_t batch) {
  nn::ResNet model = nn::resnet50();
  model.to(kGPU);
  optim::SGD sgd(model.parameters(), {.lr = 0.1, .momentum = 0.9});
  const Tensor images = randn({batch, 3, 224, 224}, {.device = kGPU});
  const Tensor labels = randint(0, 1000, {batch}).to(kGPU);
  const auto step = [&] {
    sgd.zero_grad();
    cross_entropy(model(images), labels).backward();
    sgd.step();
  };
  bench::report("training", "ResNet-50, batch " + std::to_string(batch), bench::median_ms(step, 3, 7), 0);
  const int64_t calls = cuda::memory_stats().driver_calls;
  for (int i = 0; i < 5; ++i) step();
  cuda::synchronize();
  std::cerr << "memory: peak " << cuda::memory_stats().peak_bytes / 1000000
            << " MB, driver calls in 5 warm steps: " << cuda::memory_stats().driver_calls - calls << '\n';
}

/// Many small tensors: what a step costs when arithmetic does not.
void adam_steps() {
  std::vector<Tensor> parameters;
  for (int i = 0; i < 200; ++i) {
    parameters.push_back(randn({64, 65}, {.device = kGPU, .requires_grad = true}));
    parameters.back().set_grad(randn({64, 65}, {.device = kGPU}));
  }
  optim::Adam adam(parameters, {.lr = 1e-3});
  bench::report("training", "Adam step of 200 small tensors", bench::median_ms([&] { adam.step(); }), 0);
}

}  // namespace

int main() {
  try {
    if (!cuda::is_available()) {
      std::cerr << "no CUDA device: " << cuda::why_unavailable() << '\n';
      return 0;
    }
    adam_steps();
    resnet50(64);
  } catch (const std::exception& error) {
    std::cerr << "error: " << error.what() << '\n';
    return 1;
  }
}
