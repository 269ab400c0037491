#include "tendril/tensor/cuda/cuda.h"
#include "tendril/tensor/cuda/runtime/current.h"

namespace tendril {

constinit const Kernels cuda::table = {
    .device = "cuda",
    .channels_last = true,
#define TENDRIL_SLOT(name) .name = name,
#include "tendril/tensor/cuda/slots.def"
};

const Kernels& detail::kernels_elsewhere(Device device) {
  cuda::set_current_device(device.index);
  return cuda::table;
}

}  // namespace tendril
