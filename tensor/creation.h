#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <span>
#include <type_traits>
#include <vector>

#include "tendril/tensor/dims.h"
#include "tendril/tensor/dtype.h"
#include "tendril/tensor/export.h"
#include "tendril/tensor/random.h"
#include "tendril/tensor/scalar.h"
#include "tendril/tensor/tensor.h"

TENDRIL_API_BEGIN

/// Functions that make tensors. Declared here, defined in autograd/creation.cpp, because `options.requires_grad` is
/// autograd's affair; tensor/ itself uses raw.h. Sizes that are negative or too large are a ShapeError.
///
/// They put tensors on `options.device`, which is `default_device()` (device.h) where nobody says otherwise. Elements
/// that come from the program's own values are laid out on the CPU and copied over.
namespace tendril {

Tensor empty(const Dims& sizes, TensorOptions options = {});  ///< uninitialised
/// All elements 0.
Tensor zeros(const Dims& sizes, TensorOptions options = {});
/// All elements 1.
Tensor ones(const Dims& sizes, TensorOptions options = {});
Tensor full(const Dims& sizes, Scalar value, TensorOptions options = {});  ///< float32 unless options say otherwise
/// Ones on the diagonal, zeros elsewhere.
Tensor eye(int64_t rows, TensorOptions options = {});
Tensor eye(int64_t rows, int64_t columns, TensorOptions options = {});

// ---- as in LibTorch, of a dtype and without other options: `zeros({2, 3}, kFloat64)`
template <std::same_as<DType> T>
Tensor empty(const Dims& sizes, T dtype) {
  return empty(sizes, {.dtype = dtype});
}
template <std::same_as<DType> T>
Tensor zeros(const Dims& sizes, T dtype) {
  return zeros(sizes, {.dtype = dtype});
}
template <std::same_as<DType> T>
Tensor ones(const Dims& sizes, T dtype) {
  return ones(sizes, {.dtype = dtype});
}
template <std::same_as<DType> T>
Tensor full(const Dims& sizes, Scalar value, T dtype) {
  return full(sizes, value, {.dtype = dtype});
}
template <std::same_as<DType> T>
Tensor eye(int64_t rows, T dtype) {
  return eye(rows, {.dtype = dtype});
}
template <std::same_as<DType> T>
Tensor eye(int64_t rows, int64_t columns, T dtype) {
  return eye(rows, columns, {.dtype = dtype});
}

/// start, start + step, ... below end (above it for a negative step). Without options: int64 if all three are integers,
/// else float32. With options: of their dtype. Throws Error for a step of 0 or one that leads away from end.
Tensor arange(Scalar end);
Tensor arange(Scalar start, Scalar end, Scalar step = 1);
Tensor arange(Scalar start, Scalar end, Scalar step, TensorOptions options);
inline Tensor arange(Scalar end, TensorOptions options) { return arange(0, end, 1, options); }
inline Tensor arange(Scalar start, Scalar end, TensorOptions options) { return arange(start, end, 1, options); }
template <std::same_as<DType> T>
Tensor arange(Scalar end, T dtype) {
  return arange(0, end, 1, {.dtype = dtype});
}
template <std::same_as<DType> T>
Tensor arange(Scalar start, Scalar end, T dtype) {
  return arange(start, end, 1, {.dtype = dtype});
}
template <std::same_as<DType> T>
Tensor arange(Scalar start, Scalar end, Scalar step, T dtype) {
  return arange(start, end, step, {.dtype = dtype});
}
/// `steps` values from start to end, both included.
Tensor linspace(double start, double end, int64_t steps, TensorOptions options = {});
template <std::same_as<DType> T>
Tensor linspace(double start, double end, int64_t steps, T dtype) {
  return linspace(start, end, steps, {.dtype = dtype});
}

// ---- of another tensor's sizes, dtype and device, in its suggest_memory_format(); never requiring a gradient
/// Uninitialised.
Tensor empty_like(const Tensor& x);
/// All elements 0.
Tensor zeros_like(const Tensor& x);
/// All elements 1.
Tensor ones_like(const Tensor& x);
/// All elements `value`.
Tensor full_like(const Tensor& x, Scalar value);

// ---- from values
/// A copy of `values` in row-major order; ShapeError unless their number is the product of `sizes`. With options, the
/// elements are converted to their dtype.
template <class T>
Tensor from_vector(const std::vector<T>& values, const Dims& sizes);
template <class T>
Tensor from_vector(const std::vector<T>& values, const Dims& sizes, TensorOptions options);
template <class T, std::same_as<DType> D>
Tensor from_vector(const std::vector<T>& values, const Dims& sizes, D dtype) {
  return from_vector(values, sizes, TensorOptions{.dtype = dtype});
}

/// Memory that is not ours; `deleter` (may be empty) runs when the last view is gone, on whichever thread that is.
/// `options.dtype` says what is in it; strides count elements. The tensor is on the CPU, whatever the options say.
Tensor from_blob(void* data, const Dims& sizes, TensorOptions options = {}, std::function<void(void*)> deleter = {});
Tensor from_blob(void* data, const Dims& sizes, const Dims& strides, TensorOptions options = {},
                 std::function<void(void*)> deleter = {});

/// A number, or nested lists of numbers up to three deep, as a tensor: `tensor(3.5)`, `tensor({1, 2, 3})`,
/// `tensor({{1., 2.}, {3., 4.}})`. As in PyTorch integers give int64, bools bool, and floating numbers float32, unless
/// options say otherwise. Ragged lists are a ShapeError.
Tensor tensor(Scalar value);
Tensor tensor(Scalar value, TensorOptions options);
template <std::same_as<DType> D>
Tensor tensor(Scalar value, D dtype) {
  return tensor(value, TensorOptions{.dtype = dtype});
}

namespace detail {
/// What nested lists hold, row by row.
struct Elements {
  std::vector<Scalar> values;
  Dims sizes;
};
Tensor tensor_of(const Elements& elements, const TensorOptions* options);
inline Tensor tensor_of(const Elements& elements, DType dtype) {
  const TensorOptions options{.dtype = dtype};
  return tensor_of(elements, &options);
}

template <class T>
concept Element = std::integral<T> || std::floating_point<T>;

template <Element T>
Elements elements_of(std::initializer_list<T> list) {
  return {{list.begin(), list.end()}, {static_cast<int64_t>(list.size())}};
}
template <class T>
Elements elements_of(std::initializer_list<std::initializer_list<T>> list) {
  Elements all;
  for (const auto& row : list) {
    const Elements part = elements_of(row);
    TENDRIL_CHECK_AS(ShapeError, all.values.empty() || part.sizes == all.sizes, "tensor: rows of shapes ", all.sizes,
                     " and ", part.sizes, " differ");
    all.sizes = part.sizes;
    all.values.insert(all.values.end(), part.values.begin(), part.values.end());
  }
  all.sizes.insert(0, static_cast<int64_t>(list.size()));
  return all;
}
}  // namespace detail

/// A vector of these values.
template <detail::Element T, std::same_as<DType> D>
Tensor tensor(std::initializer_list<T> values, D dtype) {
  return detail::tensor_of(detail::elements_of(values), dtype);
}
template <detail::Element T>
Tensor tensor(std::initializer_list<T> values) {
  return detail::tensor_of(detail::elements_of(values), nullptr);
}
template <detail::Element T>
Tensor tensor(std::initializer_list<T> values, TensorOptions options) {
  return detail::tensor_of(detail::elements_of(values), &options);
}
/// A matrix of these rows.
template <detail::Element T, std::same_as<DType> D>
Tensor tensor(std::initializer_list<std::initializer_list<T>> rows, D dtype) {
  return detail::tensor_of(detail::elements_of(rows), dtype);
}
template <detail::Element T>
Tensor tensor(std::initializer_list<std::initializer_list<T>> rows) {
  return detail::tensor_of(detail::elements_of(rows), nullptr);
}
template <detail::Element T>
Tensor tensor(std::initializer_list<std::initializer_list<T>> rows, TensorOptions options) {
  return detail::tensor_of(detail::elements_of(rows), &options);
}
/// Three dimensions.
template <detail::Element T, std::same_as<DType> D>
Tensor tensor(std::initializer_list<std::initializer_list<std::initializer_list<T>>> blocks, D dtype) {
  return detail::tensor_of(detail::elements_of(blocks), dtype);
}
template <detail::Element T>
Tensor tensor(std::initializer_list<std::initializer_list<std::initializer_list<T>>> blocks) {
  return detail::tensor_of(detail::elements_of(blocks), nullptr);
}
template <detail::Element T>
Tensor tensor(std::initializer_list<std::initializer_list<std::initializer_list<T>>> blocks, TensorOptions options) {
  return detail::tensor_of(detail::elements_of(blocks), &options);
}

/// A vector of the values, converted as those of a list are: integers to int64, floating numbers to float32.
template <class T>
requires requires(const std::vector<T>& values) { from_vector(values, Dims{}, TensorOptions{}); }
Tensor tensor(const std::vector<T>& values, TensorOptions options) {
  return from_vector(values, {static_cast<int64_t>(values.size())}, options);
}
/// A vector of the values, converted to `dtype`.
template <class T, std::same_as<DType> D>
requires requires(const std::vector<T>& values) { from_vector(values, Dims{}, TensorOptions{}); }
Tensor tensor(const std::vector<T>& values, D dtype) { return tensor(values, TensorOptions{.dtype = dtype}); }
/// A vector of these values.
template <class T>
Tensor tensor(const std::vector<T>& values) {
  return tensor(values, {.dtype = std::is_same_v<T, bool> ? kBool : std::is_floating_point_v<T> ? kFloat32 : kInt64});
}

// ---- random; without a generator from `default_generator()`
Tensor rand(const Dims& sizes, TensorOptions options = {});  ///< uniform in [0, 1)
Tensor rand(const Dims& sizes, Generator& generator, TensorOptions options = {});
Tensor randn(const Dims& sizes, TensorOptions options = {});  ///< normal, mean 0, variance 1
Tensor randn(const Dims& sizes, Generator& generator, TensorOptions options = {});
template <std::same_as<DType> T>
Tensor rand(const Dims& sizes, T dtype) {
  return rand(sizes, {.dtype = dtype});
}
template <std::same_as<DType> T>
Tensor randn(const Dims& sizes, T dtype) {
  return randn(sizes, {.dtype = dtype});
}
template <std::same_as<DType> T>
Tensor rand(const Dims& sizes, Generator& generator, T dtype) {
  return rand(sizes, generator, {.dtype = dtype});
}
template <std::same_as<DType> T>
Tensor randn(const Dims& sizes, Generator& generator, T dtype) {
  return randn(sizes, generator, {.dtype = dtype});
}
/// Integers in [low, high); without options int64, else of their dtype. Throws Error unless low < high, DTypeError
/// where the dtype does not hold them.
Tensor randint(int64_t low, int64_t high, const Dims& sizes);
Tensor randint(int64_t low, int64_t high, const Dims& sizes, Generator& generator);
Tensor randint(int64_t low, int64_t high, const Dims& sizes, TensorOptions options);
Tensor randint(int64_t low, int64_t high, const Dims& sizes, Generator& generator, TensorOptions options);
template <std::same_as<DType> T>
Tensor randint(int64_t low, int64_t high, const Dims& sizes, T dtype) {
  return randint(low, high, sizes, TensorOptions{.dtype = dtype});
}
inline Tensor randint(int64_t high, const Dims& sizes) { return randint(0, high, sizes); }  ///< in [0, high)
inline Tensor randint(int64_t high, const Dims& sizes, Generator& generator) {
  return randint(0, high, sizes, generator);
}
inline Tensor randint(int64_t high, const Dims& sizes, TensorOptions options) {
  return randint(0, high, sizes, options);
}
/// 0 to n - 1 in random order; without options int64. Throws DTypeError for a dtype that does not hold all of them.
Tensor randperm(int64_t n);
Tensor randperm(int64_t n, Generator& generator);
Tensor randperm(int64_t n, TensorOptions options);
Tensor randperm(int64_t n, Generator& generator, TensorOptions options);

}  // namespace tendril

TENDRIL_API_END
