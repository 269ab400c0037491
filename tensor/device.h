#pragma once

#include <cstdint>
#include <iosfwd>

namespace tendril {

enum class DeviceType : uint8_t { cpu = 0, cuda = 1 };

/// Where a tensor's elements live.
struct Device {
  DeviceType type = DeviceType::cpu;
  int8_t index = 0;

  constexpr bool is_cpu() const noexcept { return type == DeviceType::cpu; }
  friend constexpr bool operator==(Device, Device) = default;
};
inline constexpr Device kCPU{};

/// How many devices of the type this process can use: 1 for the CPU; for CUDA what the driver reports, 0 without a
/// driver, without a device, or in a library built without CUDA. Thread-safe.
int device_count(DeviceType type) noexcept;

std::ostream& operator<<(std::ostream& out, Device device);  ///< "cpu", "cuda:0"

}  // namespace tendril
