#pragma once

#include <span>
#include <utility>
#include <vector>

#include "tendril/tensor/raw.h"

/// raw.h's functions that make tensors, on the default device: for tests that run on every device.
namespace tendril::make {

inline Tensor empty(const Dims& sizes, DType dtype = kFloat32) { return raw::empty(sizes, dtype, default_device()); }
inline Tensor full(const Dims& sizes, Scalar value, DType dtype = kFloat32) {
  return raw::full(sizes, value, dtype, default_device());
}
inline Tensor zeros(const Dims& sizes, DType dtype = kFloat32) { return full(sizes, 0, dtype); }
inline Tensor ones(const Dims& sizes, DType dtype = kFloat32) { return full(sizes, 1, dtype); }
inline Tensor scalar(Scalar value, DType dtype) { return full({}, value, dtype); }
inline Tensor empty_strided(const Dims& sizes, const Dims& strides, DType dtype = kFloat32) {
  return raw::empty_strided(sizes, strides, dtype, default_device());
}
inline Tensor arange(Scalar start, Scalar end, Scalar step = 1, DType dtype = kInt64) {
  return raw::arange(start, end, step, dtype, default_device());
}
inline Tensor eye(int64_t rows, int64_t columns, DType dtype = kFloat32) {
  return raw::eye(rows, columns, dtype, default_device());
}
template <class Values>
Tensor from_data(Values&& values, const Dims& sizes) {
  return raw::to(raw::from_data(std::forward<Values>(values), sizes), default_device());
}
inline Tensor randperm(int64_t n, Generator& generator) {
  return raw::to(raw::randperm(n, generator), default_device());
}

}  // namespace tendril::make
