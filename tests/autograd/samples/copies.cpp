#include "tests/autograd/samples/samples.h"

namespace tendril::samples {

std::vector<OpSample> copies_samples() {
  const std::vector<std::vector<Dims>> shapes = {{{2, 3}}, {{}}, {{0, 3}}, {{1, 1}}, {{2, 1, 2}}};
  const OpSample cast{"to float32 and back",
                      [](const auto& x) { return std::vector{x[0].to(kFloat32).to(kFloat64)}; },
                      shapes,
                      {},
                      false,
                      1e-2};  // a step that float32 resolves
  std::vector<OpSample> all = {
      cast,
      {"clone", [](const auto& x) { return std::vector{x[0].clone()}; }, shapes},
      {"contiguous", [](const auto& x) { return std::vector{x[0].contiguous()}; }, shapes},
  };
  if (device_count(DeviceType::cuda) > 0) {
    const auto there_and_back = [](const auto& x) {
      const Device device{DeviceType::cuda, 0}, other = x[0].device() == device ? kCPU : device;
      return std::vector{x[0].to(other).to(x[0].device())};
    };
    all.push_back({"to another device and back", there_and_back, shapes});
  }
  return all;
}

}  // namespace tendril::samples
