#include "tendril/tensor/device.h"

#include <ostream>

#include "tendril/tensor/cuda/device.h"
#include "tendril/tensor/error.h"

namespace tendril {

int device_count(DeviceType type) noexcept { return type == DeviceType::cpu ? 1 : cuda::device_count(); }

void set_default_device(Device device) {
  const int count = device_count(device.type);
  TENDRIL_CHECK(device.index >= 0 && device.index < count, "set_default_device: got ", device,
                ", but this process has ", count, device.is_cpu() ? " cpu" : " cuda",
                count == 1 ? " device" : " devices");
  detail::default_device.store(device, std::memory_order_relaxed);
}

std::ostream& operator<<(std::ostream& out, Device device) {
  if (device.is_cpu()) return out << "cpu";
  return out << "cuda:" << static_cast<int>(device.index);
}

}  // namespace tendril
