// Another process for ipc_test. `ipc HANDLE`: opens the handle, says what came of it and, line by line, does what it is
// told: "read" says the first number, "write N" puts one there, "touch" reads it without a kernel, "close" closes it.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>

#include "cuda_emulator/device.h"

int main(int, char** argv) {
  cudaIpcMemHandle_t handle;
  for (std::size_t i = 0; i < sizeof handle; ++i) {
    const char digits[3] = {argv[1][2 * i], argv[1][2 * i + 1], '\0'};
    handle.reserved[i] = static_cast<char>(std::strtoul(digits, nullptr, 16));
  }
  void* opened = nullptr;
  std::cout << cudaGetErrorName(cudaIpcOpenMemHandle(&opened, handle, cudaIpcMemLazyEnablePeerAccess)) << std::endl;
  void* again = nullptr;
  if (opened != nullptr) {
    cudaIpcOpenMemHandle(&again, handle, cudaIpcMemLazyEnablePeerAccess);
    std::cout << (opened == again ? "the same" : "another") << ' ' << cudaGetErrorName(cudaIpcCloseMemHandle(again))
              << std::endl;
  }
  auto* const first = static_cast<float*>(opened);
  for (std::string line; std::getline(std::cin, line);) {
    float number = -1;
    if (line == "read") {
      const cudaError_t error = cudaMemcpyAsync(&number, first, sizeof number, cudaMemcpyDeviceToHost, nullptr);
      std::cout << cudaGetErrorName(error) << ' ' << number << std::endl;
    } else if (line.rfind("write ", 0) == 0) {
      number = std::strtof(line.c_str() + 6, nullptr);
      cudaMemcpyAsync(first, &number, sizeof number, cudaMemcpyHostToDevice, nullptr);
      cudaStreamSynchronize(nullptr);
      std::cout << "written" << std::endl;
    } else if (line == "close") {
      std::cout << cudaGetErrorName(cudaIpcCloseMemHandle(opened)) << ' '
                << cudaGetErrorName(cudaIpcCloseMemHandle(opened)) << std::endl;
    } else if (line == "touch") {
      std::cout << *static_cast<volatile float*>(first) << std::endl;
    }
  }
}
