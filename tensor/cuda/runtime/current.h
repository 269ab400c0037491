#pragma once

#include <cuda_runtime_api.h>

#include <new>

#include "tendril/tensor/device.h"

/// Where this thread's work goes.
namespace tendril::cuda {

/// This thread's current device, which is CUDA's: kernels and guards change it while they live. Throws Error without a
/// device.
int current_device();
/// Makes `index` this thread's current device. Returns the previous one for leave_device, or -1 if there is nothing to
/// restore: it is the same, or has no context, which costs a device half a gigabyte and would be made. Throws Error
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

/// While it lives, this thread's current device is `index`.
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
