#include "tendril/tensor/cuda/device.h"
#include "tendril/tensor/kernels.h"

/// Stands in for the CUDA backend in a library that was built without it.
namespace tendril {

int cuda::device_count() noexcept { return 0; }

const Kernels& detail::kernels_elsewhere(Device device) {
  raise<Error>("no kernels for ", device, ": this library was built without CUDA");
}

}  // namespace tendril
