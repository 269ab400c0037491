#include "tendril/tensor/device.h"

#include <charconv>
#include <ostream>

#include "tendril/tensor/cuda/runtime/device.h"
#include "tendril/tensor/error.h"

namespace tendril {

Device parse_device(std::string_view text) {
  if (text == "cpu") return kCPU;
  if (text == "cuda") return {DeviceType::cuda, 0};
  constexpr std::string_view kPrefix = "cuda:";
  if (text.starts_with(kPrefix)) {
    const char* const first = text.data() + kPrefix.size();
    const char* const last = text.data() + text.size();
    int8_t index = -1;
    const auto [end, problem] = std::from_chars(first, last, index);
    if (problem == std::errc() && end == last && index >= 0) return {DeviceType::cuda, index};
  }
  tendril::detail::raise<Error>("parse_device: got '", text, "', expected cpu, cuda or cuda:N");
}

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
