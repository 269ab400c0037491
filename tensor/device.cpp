#include "tendril/tensor/device.h"

#include <ostream>

#include "tendril/tensor/cuda/device.h"

namespace tendril {

int device_count(DeviceType type) noexcept { return type == DeviceType::cpu ? 1 : cuda::device_count(); }

std::ostream& operator<<(std::ostream& out, Device device) {
  if (device.is_cpu()) return out << "cpu";
  return out << "cuda:" << static_cast<int>(device.index);
}

}  // namespace tendril
