#pragma once

#include <cuda_runtime_api.h>

#include <new>

#include "tendril/tensor/device.h"

/// Where this thread's work goes.
namespace tendril::cuda {

/// This thread's current device, which is CUDA's. DeviceKernels and DeviceGuard change it until they are destroyed.
/// Throws Error without a device.
int current_device();
/// Makes `index` this thread's current device. Returns the previous device for leave_device, or -1 if it is the same
/// one or has no context: returning to it would make one, which takes half a gigabyte of its memory. Throws Error
/// unless the machine has device `index`.
int enter_device(int index);
void leave_device(int before) noexcept;
/// This thread's stream on its current device: the device's default stream unless a StreamGuard says otherwise.
cudaStream_t current_stream();
/// Throws Error unless the machine has device `index`. Asks the device nothing.
void check_device(int index);
/// For work of the host that needs some device, such as locking pages: the current one if it has a context; or one that
/// has; or `local_device`.
int any_device();

/// Until it is destroyed, this thread's current device is `index`; afterwards the previous one, unless that has no
/// context.
class DeviceGuard {
 public:
  explicit DeviceGuard(int index) : before_(enter_device(index)) {}
  /// For calls that must not throw, on a device that is there.
  DeviceGuard(int index, const std::nothrow_t&) noexcept;
  ~DeviceGuard() {
    if (before_ >= 0) leave_device(before_);
  }
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  int before_;
};

}  // namespace tendril::cuda
