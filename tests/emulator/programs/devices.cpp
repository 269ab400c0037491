// Prints how many devices there are, what cudaMalloc of 1 MiB says on each, and the order of a kernel's threads.
#include <cstdio>

#include "cuda_emulator/device.h"

namespace {

__global__ void note_order(unsigned* order, unsigned* next) { order[atomicAdd(next, 1u)] = threadIdx.x; }

}  // namespace

int main() {
  int count = -1;
  const cudaError_t error = cudaGetDeviceCount(&count);
  std::printf("%s %d", cudaGetErrorName(error), count);
  void* memory = nullptr;
  for (int device = 0; device < count; ++device) {
    cudaSetDevice(device);
    std::printf(" %s", cudaGetErrorName(cudaMalloc(&memory, 1 << 20)));
  }
  if (count == 0) std::printf(" %s", cudaGetErrorName(cudaMalloc(&memory, 1)));
  if (memory != nullptr) {
    auto* const words = static_cast<unsigned*>(memory);
    unsigned order[9] = {};
    cudaMemsetAsync(words, 0, sizeof order, nullptr);
    cuda_emulator::launch(note_order, dim3(1), dim3(8), 0, nullptr, words + 1, words);
    cudaMemcpyAsync(order, words, sizeof order, cudaMemcpyDeviceToHost, nullptr);  // waits: pageable
    std::printf(" order");
    for (int i = 1; i < 9; ++i) std::printf(" %u", order[i]);
  }
}
