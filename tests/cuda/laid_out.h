#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tendril/tensor/device.h"
#include "tendril/tensor/raw.h"
#include "tests/cuda/compare.h"

/// Tensors of one content in every layout, on the CPU and on a device.
namespace tendril::testing {

inline constexpr Device kCuda = kGPU;

/// A tensor as a window on a contiguous one, so that it can be laid out alike on any device without a kernel.
struct Laid {
  std::string name;
  Tensor base;
  std::function<Tensor(const Tensor&)> window;

  Tensor on(Device device) const { return window(raw::to(base, device)); }
};

/// `x`, contiguous, and copies of it that lie differently in memory.
inline std::vector<Laid> laid_out(const Tensor& x) {
  const int n = x.dim();
  std::vector<Laid> all = {{"contiguous", x, [](const Tensor& base) { return base; }}};
  if (n == 0) return all;
  Dims backwards;
  for (int d = n - 1; d >= 0; --d) backwards.push_back(d);
  if (n > 1) {
    all.push_back({"permuted", raw::contiguous(raw::permute(x, backwards)),
                   [backwards](const Tensor& base) { return raw::permute(base, backwards); }});
  }
  const auto inside = [&](std::string name, const Dims& sizes, const std::function<Tensor(const Tensor&)>& window) {
    const Tensor base = raw::full(sizes, 77, x.dtype());
    raw::copy_(window(base), x);
    all.push_back({std::move(name), base, window});
  };
  Dims wide = x.sizes();
  wide[n - 1] = 2 * wide[n - 1] + 1;
  inside("with gaps", wide, [n](const Tensor& base) { return base.slice(n - 1, 1, INT64_MAX, 2); });
  Dims tall = x.sizes();
  tall[0] += 3;
  inside("inside a taller one", tall,
         [size = x.sizes()[0]](const Tensor& base) { return raw::narrow(base, 0, 2, size); });
  Dims broad = x.sizes();
  broad[n - 1] += 3;
  inside("inside a wider one", broad,
         [n, size = x.sizes()[n - 1]](const Tensor& base) { return raw::narrow(base, n - 1, 1, size); });
  return all;
}

/// Small numbers of any dtype, with repetitions; `seed` makes another tensor of them.
inline Tensor numbers(const Dims& sizes, DType dtype = kFloat32, int64_t seed = 0) {
  std::vector<double> all;
  for (int64_t i = 0; i < numel_of(sizes); ++i) all.push_back(static_cast<double>((i * 37 + seed * 11) % 23 - 7) / 4);
  const Tensor quarters = raw::from_data(all, sizes);
  return raw::cast(is_floating(dtype) ? quarters : raw::binary(Binary::mul, quarters, 4), dtype);
}

}  // namespace tendril::testing
