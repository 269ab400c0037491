#include <cmath>

#include "tendril/tensor/creation.h"

#include "tendril/tensor/raw.h"

namespace tendril {
namespace {

Tensor with_options(Tensor made, const TensorOptions& options) {
  if (options.requires_grad) made.requires_grad_();
  return made;
}

/// What was laid out on the CPU, where it is wanted.
Tensor placed(const Tensor& made, const TensorOptions& options) {
  return with_options(raw::cast(made, options.dtype).to(options.device), options);
}

Tensor filled_like(const Tensor& x, Scalar value, const char* op) {
  detail::check_defined(x, op);
  detail::check_fits(value, x.dtype(), op);
  Tensor result = raw::empty_in_format_of(x);
  raw::fill_(result, value);
  return result;
}

/// Throws DTypeError unless `value` and all integers between it and 0 are elements of `dtype`.
void check_holds(const char* op, DType dtype, int64_t value) {
  TENDRIL_CHECK_AS(DTypeError, dtype != kBool, op, ": not for bool");
  int64_t least = INT64_MIN, most = INT64_MAX;
  if (dtype == kUInt8) least = 0, most = UINT8_MAX;
  if (dtype == kInt32) least = INT32_MIN, most = INT32_MAX;
  if (is_floating(dtype)) {
    most = int64_t{1} << (dtype == kFloat16 ? 11 : dtype == kBFloat16 ? 8 : dtype == kFloat32 ? 24 : 53);
    least = -most;
  }
  TENDRIL_CHECK_AS(DTypeError, value >= least && value <= most, op, ": the value ", value, " does not convert to ",
                   dtype);
}

}  // namespace

Tensor empty(const Dims& sizes, TensorOptions options) {
  return with_options(raw::empty(sizes, options.dtype, options.device), options);
}
Tensor zeros(const Dims& sizes, TensorOptions options) { return full(sizes, 0, options); }
Tensor ones(const Dims& sizes, TensorOptions options) { return full(sizes, 1, options); }
Tensor full(const Dims& sizes, Scalar value, TensorOptions options) {
  detail::check_fits(value, options.dtype, "full");
  return with_options(raw::full(sizes, value, options.dtype, options.device), options);
}
Tensor eye(int64_t rows, TensorOptions options) { return eye(rows, rows, options); }
Tensor eye(int64_t rows, int64_t columns, TensorOptions options) {
  return with_options(raw::eye(rows, columns, options.dtype, options.device), options);
}

Tensor arange(Scalar end) { return arange(0, end, 1); }
Tensor arange(Scalar start, Scalar end, Scalar step) {
  const bool floating = start.is_floating() || end.is_floating() || step.is_floating();
  return raw::arange(start, end, step, floating ? kFloat32 : kInt64, default_device());
}
Tensor arange(Scalar start, Scalar end, Scalar step, TensorOptions options) {
  return with_options(raw::arange(start, end, step, options.dtype, options.device), options);
}
Tensor linspace(double start, double end, int64_t steps, TensorOptions options) {
  TENDRIL_CHECK_AS(ShapeError, steps >= 0, "linspace: the number of steps must not be negative, got ", steps);
  std::vector<double> values(static_cast<std::size_t>(steps));
  const auto intervals = static_cast<double>(steps - 1);
  const double span = end - start, step = steps < 2             ? 0
                                          : std::isfinite(span) ? span / intervals
                                                                : end / intervals - start / intervals;
  for (int64_t i = 0; i < steps; ++i) {  // from the nearer end, so that both are hit exactly
    values[static_cast<std::size_t>(i)] =
        i < (steps + 1) / 2 ? start + step * static_cast<double>(i) : end - step * static_cast<double>(steps - 1 - i);
  }
  return from_vector(values, {steps}, options);
}

Tensor empty_like(const Tensor& x) {
  detail::check_defined(x, "empty_like");
  return raw::empty_in_format_of(x);
}
Tensor zeros_like(const Tensor& x) { return filled_like(x, 0, "zeros_like"); }
Tensor ones_like(const Tensor& x) { return filled_like(x, 1, "ones_like"); }
Tensor full_like(const Tensor& x, Scalar value) { return filled_like(x, value, "full_like"); }

// Again: an instantiation is as visible as its template's definition.
TENDRIL_API_BEGIN

template <class T>
Tensor from_vector(const std::vector<T>& values, const Dims& sizes) {
  return raw::from_data(values, sizes).to(default_device());
}
template <class T>
Tensor from_vector(const std::vector<T>& values, const Dims& sizes, TensorOptions options) {
  return placed(raw::from_data(values, sizes), options);
}
#define TENDRIL_FROM_VECTOR(T)                                     \
  template Tensor from_vector(const std::vector<T>&, const Dims&); \
  template Tensor from_vector(const std::vector<T>&, const Dims&, TensorOptions)
TENDRIL_FROM_VECTOR(float);
TENDRIL_FROM_VECTOR(double);
TENDRIL_FROM_VECTOR(int64_t);
TENDRIL_FROM_VECTOR(int32_t);
TENDRIL_FROM_VECTOR(uint8_t);
TENDRIL_FROM_VECTOR(bool);
TENDRIL_FROM_VECTOR(Half);
TENDRIL_FROM_VECTOR(BFloat16);
#undef TENDRIL_FROM_VECTOR

TENDRIL_API_END

Tensor from_blob(void* data, const Dims& sizes, TensorOptions options, std::function<void(void*)> deleter) {
  return with_options(raw::from_blob(data, sizes, options.dtype, std::move(deleter)), options);
}
Tensor from_blob(void* data, const Dims& sizes, const Dims& strides, TensorOptions options,
                 std::function<void(void*)> deleter) {
  return with_options(raw::from_blob(data, sizes, strides, options.dtype, std::move(deleter)), options);
}

Tensor tensor(Scalar value) { return detail::tensor_of({{value}, {}}, nullptr); }
Tensor tensor(Scalar value, TensorOptions options) { return detail::tensor_of({{value}, {}}, &options); }

Tensor detail::tensor_of(const Elements& elements, const TensorOptions* options) {
  const bool empty = elements.values.empty();
  const DType category = empty ? kFloat64 : elements.values.front().category();
  const DType natural = category == kFloat64 ? kFloat32 : category, dtype = options ? options->dtype : natural;
  for (const Scalar& value : elements.values) check_fits(value, dtype, "tensor");
  Tensor made;
  if (category == kFloat64) {
    std::vector<double> values;
    for (const Scalar& value : elements.values) values.push_back(value.to<double>());
    made = raw::from_data(values, elements.sizes);
  } else {
    std::vector<int64_t> values;
    for (const Scalar& value : elements.values) values.push_back(value.to<int64_t>());
    made = raw::from_data(values, elements.sizes);
  }
  return placed(made, options ? *options : TensorOptions{.dtype = natural});
}

Tensor rand(const Dims& sizes, TensorOptions options) { return rand(sizes, default_generator(), options); }
Tensor rand(const Dims& sizes, Generator& generator, TensorOptions options) {
  Tensor made = raw::empty(sizes, options.dtype, options.device);
  raw::uniform_(made, 0, 1, generator);
  return with_options(std::move(made), options);
}
Tensor randn(const Dims& sizes, TensorOptions options) { return randn(sizes, default_generator(), options); }
Tensor randn(const Dims& sizes, Generator& generator, TensorOptions options) {
  Tensor made = raw::empty(sizes, options.dtype, options.device);
  raw::normal_(made, 0, 1, generator);
  return with_options(std::move(made), options);
}
Tensor randint(int64_t low, int64_t high, const Dims& sizes) { return randint(low, high, sizes, default_generator()); }
Tensor randint(int64_t low, int64_t high, const Dims& sizes, Generator& generator) {
  return randint(low, high, sizes, generator, {.dtype = kInt64});
}
Tensor randint(int64_t low, int64_t high, const Dims& sizes, TensorOptions options) {
  return randint(low, high, sizes, default_generator(), options);
}
Tensor randint(int64_t low, int64_t high, const Dims& sizes, Generator& generator, TensorOptions options) {
  TENDRIL_CHECK(low < high, "randint: the range [", low, ", ", high, ") is empty");
  for (const int64_t end : {low, high - 1}) check_holds("randint", options.dtype, end);
  Tensor made = raw::empty(sizes, options.dtype, options.device);
  raw::randint_(made, low, high, generator);
  return with_options(std::move(made), options);
}
Tensor randperm(int64_t n) { return randperm(n, default_generator()); }
Tensor randperm(int64_t n, Generator& generator) { return randperm(n, generator, {.dtype = kInt64}); }
Tensor randperm(int64_t n, TensorOptions options) { return randperm(n, default_generator(), options); }
Tensor randperm(int64_t n, Generator& generator, TensorOptions options) {
  if (n > 0) check_holds("randperm", options.dtype, n - 1);
  return placed(raw::randperm(n, generator), options);
}

}  // namespace tendril
