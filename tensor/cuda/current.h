#pragma once

#include <cuda_runtime_api.h>

#include "tendril/tensor/device.h"

/// Where this thread's work goes.
namespace tendril::cuda {

/// The device that this thread last took kernels of (`kernels(device)` sets it), or 0. Throws Error without a device.
int current_device();
/// Makes `index` this thread's device. Throws Error unless the machine has it.
void set_current_device(int index);
/// This thread's stream on its current device: the device's default stream unless a StreamGuard says otherwise.
cudaStream_t current_stream();

/// For as long as it lives, this thread's device is another.
class DeviceGuard {
 public:
  explicit DeviceGuard(int index) : before_(current_device()) { set_current_device(index); }
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  int before_;
};

}  // namespace tendril::cuda
