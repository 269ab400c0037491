#include "tendril/tensor/cuda/cuda.h"
#include "tendril/tensor/cuda/current.h"

namespace tendril {

constinit const Kernels cuda::table = {
    .device = "cuda",
    .matmul = matmul,
};

const Kernels& detail::kernels_elsewhere(Device device) {
  cuda::set_current_device(device.index);
  return cuda::table;
}

}  // namespace tendril
