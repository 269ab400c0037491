#pragma once

#include <atomic>
#include <cstdint>
#include <iosfwd>
#include <string_view>

#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril {

/// The kinds of devices.
enum class DeviceType : uint8_t {
  cpu = 0,   ///< this process's memory, and its processor
  cuda = 1,  ///< a GPU of NVIDIA's
};

/// Where a tensor's elements live.
struct Device {
  DeviceType type = DeviceType::cpu;  ///< what kind
  int8_t index = 0;                   ///< which one of its kind

  /// Whether it is the CPU.
  constexpr bool is_cpu() const noexcept { return type == DeviceType::cpu; }
  friend constexpr bool operator==(Device, Device) = default;
};
inline constexpr Device kCPU{};  ///< the CPU, of which there is one

/// "cpu", "cuda" (the first one) or "cuda:1", as PyTorch's torch.device reads them. Throws Error for anything else;
/// whether the device is there is not asked.
Device parse_device(std::string_view text);

/// How many devices of the type this process can use: 1 for the CPU; for CUDA what the driver reports, 0 without a
/// driver, without a device, or in a library built without CUDA. Thread-safe.
int device_count(DeviceType type) noexcept;

namespace detail {
inline constinit std::atomic<Device> default_device{kCPU};
}

/// Where functions that make tensors (creation.h), and layers their parameters, put them unless options say otherwise:
/// the CPU, until `set_default_device`. What is computed from tensors stays on their device.
inline Device default_device() noexcept { return detail::default_device.load(std::memory_order_relaxed); }

/// For the whole process, all threads included; tensors that are there stay where they are. Throws Error for a device
/// that this process cannot use. Thread-safe, but orders nothing: set it before other threads make tensors.
void set_default_device(Device device);

/// For as long as it lives, the default device is another. Process-wide too: for one thread at a time.
class DefaultDeviceGuard {
 public:
  explicit DefaultDeviceGuard(Device device) : before_(default_device()) { set_default_device(device); }
  ~DefaultDeviceGuard() { detail::default_device.store(before_, std::memory_order_relaxed); }
  DefaultDeviceGuard(const DefaultDeviceGuard&) = delete;
  DefaultDeviceGuard& operator=(const DefaultDeviceGuard&) = delete;

 private:
  Device before_;
};

std::ostream& operator<<(std::ostream& out, Device device);  ///< "cpu", "cuda:0"

}  // namespace tendril

TENDRIL_API_END
