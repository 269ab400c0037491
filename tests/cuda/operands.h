#pragma once

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tests/cuda/compare.h"
#include "tests/tensor/layouts.h"

/// Operands for tests of pointwise kernels.
namespace tendril::testing {

inline constexpr DType kEveryDType[] = {kFloat32, kFloat64, kInt64, kInt32, kUInt8, kBool, kFloat16, kBFloat16};

/// Numbers of either sign, zeros, and for floating types infinities and NaN: `shift` changes which comes where.
inline Tensor samples(const Dims& sizes, DType dtype, int64_t shift = 0) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  static const std::vector<double> all = {0.3, -0.7, 1,    0,   2.5,  -3,        -0.0,       0.9,
                                          5,   -1,   12.5, -20, 0.02, kInfinity, -kInfinity, std::nan("")};
  std::vector<double> values;
  const int64_t kinds = is_floating(dtype) ? 16 : 13;
  for (int64_t i = 0; i < numel_of(sizes); ++i) {
    const double value = all[static_cast<std::size_t>((i * 5 + i / 13 + shift * 3) % kinds)];
    values.push_back(dtype == kUInt8 ? std::abs(value) : value);
  }
  return raw::cast(raw::from_data(values, sizes), dtype);
}

/// `x` and copies of it in other layouts, of which one begins where no vector can.
inline std::vector<std::pair<std::string, Tensor>> written_in(const Tensor& x) {
  auto all = in_every_layout(x);
  const Tensor longer = raw::full({x.numel() + 1}, 77, x.dtype());
  const Tensor later = raw::as_strided(longer, x.sizes(), contiguous_strides(x.sizes()), 1);
  raw::copy_(later, x);
  all.emplace_back("one element later", later);
  return all;
}

/// What `written_in` gives, and tensors that repeat some of their elements.
inline std::vector<std::pair<std::string, Tensor>> read_from(const Tensor& x) {
  auto all = written_in(x);
  for (int d = 0; d < x.dim(); ++d) {
    if (x.sizes()[d] == 0) continue;
    all.emplace_back("repeated along " + std::to_string(d), raw::expand(raw::narrow(x, d, 0, 1), x.sizes()));
  }
  if (x.numel() > 0) {
    all.emplace_back("one number", raw::expand(raw::as_strided(x, {}, {}, x.storage_offset()), x.sizes()));
  }
  return all;
}

}  // namespace tendril::testing
