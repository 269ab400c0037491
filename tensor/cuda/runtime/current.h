#pragma once

#include <cuda_runtime_api.h>

#include <new>

#include "tendril/tensor/device.h"

/// Where this thread's work goes.
namespace tendril::cuda {

/// The device that this thread last took kernels of (`kernels(device)` sets it), or CUDA's own choice. Throws Error
/// without a device.
int current_device();
/// Makes `index` this thread's device. Throws Error unless the machine has it.
void set_current_device(int index);
/// This thread's stream on its current device: the device's default stream unless a StreamGuard says otherwise.
cudaStream_t current_stream();
/// Throws Error unless the machine has device `index`. Asks the device nothing.
void check_device(int index);
/// For work of the host that needs some device, such as locking pages: this thread's, if it chose one or its device has
/// a context; or one that has; or `local_device`.
int any_device();

/// For as long as it lives, this thread's device is another. Chosen device or not, no context is made but on `index`:
/// a context costs a device half a gigabyte, and cudaSetDevice makes one. So a thread that had chosen none, and whose
/// device has no context, keeps `index`.
class DeviceGuard {
 public:
  explicit DeviceGuard(int index);
  /// For calls that must not throw, on a device that is there.
  DeviceGuard(int index, const std::nothrow_t&) noexcept;
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  int before_ = 0;
  bool had_chosen_;
};

}  // namespace tendril::cuda
