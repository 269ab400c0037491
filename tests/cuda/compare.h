#pragma once

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "tendril/tensor/raw.h"

/// A kernel of the CPU's and its CUDA twin, given the same operands in the same layouts.
namespace tendril::testing {

inline constexpr Device kGPU{DeviceType::cuda, 0};

/// All elements of x's storage, those outside of x included.
inline Tensor whole_storage(const Tensor& x) {
  const auto elements = static_cast<int64_t>(x.storage()->bytes() / size_of(x.dtype()));
  return raw::on_storage(x.storage(), {elements}, {1}, 0, x.dtype());
}

/// A copy of x on `device` with x's strides and the rest of its storage. No kernel runs for it.
inline Tensor twin(const Tensor& x, Device device = kGPU) {
  const Tensor all = whole_storage(x);
  if (all.numel() == 0) return raw::empty(x.sizes(), x.dtype(), device);  // x may start beyond it
  const Tensor copy = device == x.device() ? raw::clone(all) : raw::to(all, device);
  return raw::as_strided(copy, x.sizes(), x.strides(), x.storage_offset());
}
inline std::vector<Tensor> twins(const std::vector<Tensor>& xs) {
  std::vector<Tensor> copies;
  for (const Tensor& x : xs) copies.push_back(twin(x));
  return copies;
}

/// |got - want| <= atol + rtol |want| everywhere; NaN wants NaN, an infinity the same one. Both on any device.
inline void check_close(const Tensor& got, const Tensor& want, double rtol, double atol) {
  BOOST_REQUIRE(got.sizes() == want.sizes());
  BOOST_REQUIRE(got.dtype() == want.dtype());
  const Tensor got_here = raw::contiguous(twin(got, kCPU)), want_here = raw::contiguous(twin(want, kCPU));
  const auto a = raw::cast(got_here, kFloat64).to_vector<double>();
  const auto b = raw::cast(want_here, kFloat64).to_vector<double>();
  std::size_t wrong = 0, first = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const bool same =
        std::isnan(b[i]) ? std::isnan(a[i]) : a[i] == b[i] || std::abs(a[i] - b[i]) <= atol + rtol * std::abs(b[i]);
    if (!same && wrong++ == 0) first = i;
  }
  if (wrong == 0) {
    BOOST_TEST((is_floating(got.dtype()) || raw::equal(got_here, want_here)));  // (int64 may be more than a double's)
    return;
  }
  BOOST_ERROR(wrong << " of " << a.size() << " elements differ; the first is " << first << " of shape " << want.sizes()
                    << ", " << want.dtype() << ": got " << a[first] << ", expected " << b[first]);
}

/// f(inputs) is computed on the CPU and, with twins of the inputs, on the device; results must agree, and no input may
/// change there. f takes a vector of tensors and returns one.
template <class F>
void compare(F f, const std::vector<Tensor>& inputs, double rtol = 0, double atol = 0) {
  const std::vector<Tensor> there = twins(inputs);
  const Tensor want = f(inputs), got = f(there);
  BOOST_TEST((got.device() == kGPU));
  check_close(got, want, rtol, atol);
  for (std::size_t i = 0; i < inputs.size(); ++i) check_close(whole_storage(there[i]), whole_storage(inputs[i]), 0, 0);
}

/// As `compare` for f(out, inputs), which writes to a tensor laid out like `out`: what lies between its elements must
/// stay as it was.
template <class F>
void compare_into(F f, const Tensor& out, const std::vector<Tensor>& inputs, double rtol = 0, double atol = 0) {
  const std::vector<Tensor> there = twins(inputs);
  const Tensor want = twin(out, kCPU), got = twin(out);
  f(want, inputs);
  f(got, there);
  check_close(whole_storage(got), whole_storage(want), rtol, atol);
  for (std::size_t i = 0; i < inputs.size(); ++i) check_close(whole_storage(there[i]), whole_storage(inputs[i]), 0, 0);
}

/// Uniform in [-1, 1), or whole numbers from -3 to 3 (uint8: 0 to 6) for integers.
inline Tensor noise(const Dims& sizes, DType dtype, Generator& generator) {
  const Tensor x = raw::empty(sizes, kFloat64);
  raw::uniform_(x, -1, 1, generator);
  if (is_floating(dtype)) return raw::cast(x, dtype);
  raw::binary_(Binary::mul, x, 3.5);
  if (dtype == kUInt8) raw::binary_(Binary::add, x, 3.5);
  return raw::cast(x, dtype);
}

/// Sizes with nothing but NaN (integers: 77), to be overwritten.
inline Tensor unwritten(const Dims& sizes, DType dtype) {
  return raw::full(sizes, is_floating(dtype) ? Scalar(std::numeric_limits<double>::quiet_NaN()) : Scalar(77), dtype);
}

/// Last bits of what is not one IEEE operation, relative, by the dtype of the result.
inline double tolerance(DType dtype) {
  switch (dtype) {
    case kFloat32:
      return 2e-6;
    case kFloat64:
      return 1e-14;
    case kFloat16:
      return 2e-3;
    case kBFloat16:
      return 1e-2;
    default:
      return 0;
  }
}

}  // namespace tendril::testing
