#include "tendril/tensor/cuda/cuda.h"
#include "tendril/tensor/cuda/runtime/current.h"

namespace tendril {

constinit const Kernels cuda::table = {
    .device = "cuda",
    .channels_last = true,
#define TENDRIL_SLOT(name) .name = name,
#include "tendril/tensor/cuda/slots.def"
};

detail::EnteredDevice detail::enter_device(Device device) { return {&cuda::table, cuda::enter_device(device.index)}; }
void detail::leave_device(int before) noexcept { cuda::leave_device(before); }

}  // namespace tendril
