#include <cstring>

#include "tendril/tensor/cuda/check.h"
#include "tendril/tensor/cuda/current.h"
#include "tendril/tensor/cuda/device.h"
#include "tendril/tensor/cuda/runtime.h"

namespace tendril::cuda {

namespace {

/// What the current stream of `from` holds now comes before what that of `to` will hold.
void order_after(int from, int to) {
  const DeviceGuard guard(from);
  Event made;
  made.record(Stream::current(from));
  Stream::current(to).wait(made);
}

}  // namespace

void copy_async(void* to, Device to_device, const void* from, Device from_device, std::size_t bytes) {
  if (bytes == 0) return;
  if (to_device.is_cpu() && from_device.is_cpu()) {
    std::memcpy(to, from, bytes);
    return;
  }
  if (to_device.is_cpu() || from_device.is_cpu() || to_device == from_device) {
    const DeviceGuard guard(to_device.is_cpu() ? from_device.index : to_device.index);
    TENDRIL_CUDA("copy", cudaMemcpyAsync, to, from, bytes, cudaMemcpyDefault, current_stream());
    return;
  }
  // The target may still be read by what its stream holds, and the source still be written by what its own holds. The
  // copy runs on the source's stream, between the two.
  order_after(to_device.index, from_device.index);
  {
    const DeviceGuard guard(from_device.index);
    TENDRIL_CUDA("copy", cudaMemcpyPeerAsync, to, to_device.index, from, from_device.index, bytes, current_stream());
  }
  order_after(from_device.index, to_device.index);
}

void transfer(void* to, Device to_device, const void* from, Device from_device, std::size_t bytes, bool non_blocking) {
  copy_async(to, to_device, from, from_device, bytes);
  if (non_blocking || (!to_device.is_cpu() && !from_device.is_cpu())) return;
  Stream::current(to_device.is_cpu() ? from_device.index : to_device.index).synchronize();
}

}  // namespace tendril::cuda
