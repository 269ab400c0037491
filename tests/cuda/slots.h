#pragma once

#include <string>
#include <vector>

#include "tendril/tensor/kernels.h"
#include "tendril/tensor/random.h"
#include "tendril/tensor/raw.h"
#include "tests/cuda/compare.h"
#include "tests/golden.h"
#include "tests/seed.h"

/// For tests that hold a device's kernels against the CPU's, slot by slot.
namespace tendril::testing {

/// Normal numbers around `centre`, the same for the same seed.
inline Tensor random(const Dims& sizes, DType dtype, uint64_t seed, double centre = 0) {
  const Tensor x = raw::empty(sizes, kFloat64);
  Generator generator(test_seed(seed));
  raw::normal_(x, centre, 1, generator);
  return raw::cast(x, dtype);
}

/// A tensor on either device.
struct Pair {
  explicit Pair(const Tensor& x) : cpu(x), gpu(raw::to(x, kGPU)) {}
  Pair(const Dims& sizes, DType dtype) : Pair(raw::empty(sizes, dtype)) {}

  const Tensor& on(Device device) const { return device.is_cpu() ? cpu : gpu; }
  View view(Device device) const { return raw::view_of(on(device)); }
  std::string difference(double rtol, double atol = 0) const {
    return testing::difference(raw::to(gpu, kCPU), cpu, rtol, atol);
  }

  Tensor cpu, gpu;
};

/// f(table, device) for both.
template <class F>
void on_both(F f) {
  for (const Device device : {kCPU, kGPU}) {
    const DeviceKernels table = kernels(device);
    f(*table, device);
  }
}

}  // namespace tendril::testing
