#include "tendril/tensor/cuda/device.h"

#include <cuda_runtime_api.h>

namespace tendril::cuda {

int device_count() noexcept {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) {
    cudaGetLastError();  // no driver or no device is an answer, not an error that the next call should report
    return 0;
  }
  return count;
}

}  // namespace tendril::cuda
