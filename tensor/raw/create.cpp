#include <cmath>
#include <memory>
#include <utility>

#include "tendril/tensor/detail/dispatch.h"
#include "tendril/tensor/layout.h"
#include "tendril/tensor/raw.h"

namespace tendril::raw {

namespace {

Tensor make(const Dims& sizes, int64_t numel, DType dtype, Device device) {
  int64_t bytes;
  TENDRIL_CHECK_AS(ShapeError, !__builtin_mul_overflow(numel, static_cast<int64_t>(size_of(dtype)), &bytes),
                   "too many elements: shape ", sizes, " of ", dtype);
  Ref<TensorImpl> impl = TensorImpl::make(Storage::allocate(static_cast<std::size_t>(bytes), device));
  impl->sizes = sizes;
  make_contiguous_strides(sizes, impl->strides);
  impl->numel = numel;
  impl->dtype = dtype;
  return Tensor(std::move(impl));
}

}  // namespace

Tensor empty(const Dims& sizes, DType dtype, Device device) { return make(sizes, numel_of(sizes), dtype, device); }

Tensor empty_strided(const Dims& sizes, const Dims& strides, DType dtype, Device device) {
  TENDRIL_CHECK_AS(ShapeError, sizes.size() == strides.size(), "empty_strided: sizes ", sizes, " and strides ", strides,
                   " differ in number");
  int64_t extent = 1;
  for (int d = 0; d < sizes.size(); ++d) {
    int64_t reach = 0;
    const bool fits = strides[d] >= 0 &&
                      !__builtin_mul_overflow(std::max<int64_t>(sizes[d] - 1, 0), strides[d], &reach) &&
                      !__builtin_add_overflow(extent, reach, &extent);
    TENDRIL_CHECK_AS(ShapeError, fits, "empty_strided: strides ", strides, " are out of range for ", sizes);
  }
  if (numel_of(sizes) == 0) extent = 0;
  const Tensor owner = empty({extent}, dtype, device);
  return on_storage(owner.storage(), sizes, strides, 0, dtype);
}

Tensor empty_like(const Tensor& x) {
  detail::check_defined(x, "empty_like");
  const TensorImpl& like = *x.impl();
  return make(like.sizes, like.numel, like.dtype, like.storage->device());
}

Tensor empty(const Dims& sizes, DType dtype, Device device, MemoryFormat format) {
  if (format == MemoryFormat::contiguous) return empty(sizes, dtype, device);
  const Dims strides = layout::strides_of(sizes, format, "empty");
  Tensor result = empty(sizes, dtype, device);
  result.impl()->strides = strides;
  result.impl()->contiguous = layout::is_contiguous(sizes, strides);
  return result;
}

Tensor empty_in_format_of(const Tensor& x) {
  detail::check_defined(x, "empty_in_format_of");
  return x.impl()->contiguous ? empty_like(x) : empty_in_format_of(x, x.dtype());
}
Tensor empty_in_format_of(const Tensor& x, DType dtype) {
  return empty(x.sizes(), dtype, x.device(), x.suggest_memory_format());
}

Tensor full(const Dims& sizes, Scalar value, DType dtype, Device device) {
  Tensor result = empty(sizes, dtype, device);
  fill_(result, value);
  return result;
}
Tensor zeros(const Dims& sizes, DType dtype, Device device) { return full(sizes, 0, dtype, device); }
Tensor ones(const Dims& sizes, DType dtype, Device device) { return full(sizes, 1, dtype, device); }
Tensor scalar(Scalar value, DType dtype, Device device) { return full({}, value, dtype, device); }

Tensor arange(Scalar start, Scalar end, Scalar step, DType dtype, Device device) {
  int64_t count = 0;
  if (start.is_floating() || end.is_floating() || step.is_floating()) {
    const double from = start.to<double>(), to = end.to<double>(), by = step.to<double>();
    TENDRIL_CHECK(std::isfinite(from) && std::isfinite(to) && std::isfinite(by) && by != 0 && (to - from) * by >= 0,
                  "arange: cannot go from ", start, " to ", end, " by steps of ", step);
    const double number = std::ceil((to - from) / by);
    TENDRIL_CHECK_AS(ShapeError, number < 9e18, "arange: too many elements from ", start, " to ", end, " by ", step);
    count = static_cast<int64_t>(number);
  } else {
    const int64_t from = start.to<int64_t>(), to = end.to<int64_t>(), by = step.to<int64_t>();
    TENDRIL_CHECK(by > 0 ? to >= from : by < 0 && to <= from, "arange: cannot go from ", start, " to ", end,
                  " by steps of ", step);
    // Unsigned: the distance may be above 2^63.
    const auto low = static_cast<uint64_t>(std::min(from, to)), high = static_cast<uint64_t>(std::max(from, to));
    const uint64_t stride = by > 0 ? static_cast<uint64_t>(by) : 0 - static_cast<uint64_t>(by);
    const uint64_t number = high == low ? 0 : (high - low - 1) / stride + 1;
    TENDRIL_CHECK_AS(ShapeError, number <= INT64_MAX, "arange: too many elements from ", start, " to ", end, " by ",
                     step);
    count = static_cast<int64_t>(number);
  }
  TENDRIL_CHECK_AS(DTypeError, dtype != kBool, "arange: not for bool");
  Tensor result = empty({count}, dtype, device);
  const DeviceKernels table = kernels(result.device());
  require(table->arange, "arange", *table)(view_of(result), start, step);
  return result;
}

Tensor eye(int64_t rows, int64_t columns, DType dtype, Device device) {
  TENDRIL_CHECK_AS(ShapeError, rows >= 0 && columns >= 0, "eye: sizes must not be negative, got ", rows, " and ",
                   columns);
  Tensor result = zeros({rows, columns}, dtype, device);
  const int64_t diagonal = std::min(rows, columns);
  if (diagonal > 0) fill_(as_strided(result, {diagonal}, {columns + 1}, 0), 1);
  return result;
}

// Again: an instantiation is as visible as its template's definition.
TENDRIL_API_BEGIN

template <class T>
Tensor from_data(std::span<const T> values, const Dims& sizes) {
  TENDRIL_CHECK_AS(ShapeError, numel_of(sizes) == static_cast<int64_t>(values.size()), "from_vector: ", values.size(),
                   " values do not fill shape ", sizes);
  Tensor result = empty(sizes, dtype_of<T>);
  std::copy(values.begin(), values.end(), static_cast<T*>(result.raw_data()));
  return result;
}
template Tensor from_data(std::span<const float>, const Dims&);
template Tensor from_data(std::span<const double>, const Dims&);
template Tensor from_data(std::span<const int64_t>, const Dims&);
template Tensor from_data(std::span<const int32_t>, const Dims&);
template Tensor from_data(std::span<const uint8_t>, const Dims&);
template Tensor from_data(std::span<const bool>, const Dims&);
template Tensor from_data(std::span<const Half>, const Dims&);
template Tensor from_data(std::span<const BFloat16>, const Dims&);

TENDRIL_API_END

Tensor from_data(const std::vector<bool>& values, const Dims& sizes) {
  const auto copy = std::make_unique<bool[]>(values.size());
  std::copy(values.begin(), values.end(), copy.get());
  return from_data(std::span<const bool>(copy.get(), values.size()), sizes);
}

Tensor from_blob(void* data, const Dims& sizes, DType dtype, std::function<void(void*)> deleter) {
  return from_blob(data, sizes, contiguous_strides(sizes), dtype, std::move(deleter));
}

Tensor from_blob(void* data, const Dims& sizes, const Dims& strides, DType dtype, std::function<void(void*)> deleter) {
  struct Owner {
    void* data;
    std::function<void(void*)> deleter;
  };
  int64_t extent = numel_of(sizes) == 0 ? 0 : 1;
  TENDRIL_CHECK_AS(ShapeError, sizes.size() == strides.size(), "from_blob: sizes ", sizes, " and strides ", strides,
                   " differ in number");
  for (int d = 0; extent > 0 && d < sizes.size(); ++d) extent += (sizes[d] - 1) * strides[d];
  TENDRIL_CHECK(data || extent == 0, "from_blob: the address is null for shape ", sizes);
  std::unique_ptr<Owner> owner(deleter ? new Owner{data, std::move(deleter)} : nullptr);
  const Storage::Deleter end = [](void* context) noexcept {
    const std::unique_ptr<Owner> last(static_cast<Owner*>(context));
    if (last) last->deleter(last->data);
  };
  Ref<Storage> storage =
      Storage::wrap(data, static_cast<std::size_t>(extent) * size_of(dtype), kCPU, end, owner.release());
  return on_storage(std::move(storage), sizes, strides, 0, dtype);
}

Tensor on_storage(Ref<Storage> storage, const Dims& sizes, const Dims& strides, int64_t offset, DType dtype) {
  const int64_t numel = numel_of(sizes);
  TENDRIL_CHECK_AS(ShapeError, sizes.size() == strides.size(), "a view needs a stride for every size, got sizes ",
                   sizes, " and strides ", strides);
  const auto capacity = static_cast<int64_t>(storage->bytes() / size_of(dtype));
  int64_t last = offset;  // the highest element that is reached
  bool fits = offset >= 0 && offset <= capacity;
  for (int d = 0; fits && d < sizes.size(); ++d) {
    int64_t reach = 0;
    fits = strides[d] >= 0 && (numel == 0 || (!__builtin_mul_overflow(sizes[d] - 1, strides[d], &reach) &&
                                              !__builtin_add_overflow(last, reach, &last)));
  }
  TENDRIL_CHECK_AS(ShapeError, fits && (numel == 0 || last < capacity), "a view of sizes ", sizes, ", strides ",
                   strides, " and offset ", offset, " does not fit a storage of ", capacity, " elements");
  Ref<TensorImpl> impl = TensorImpl::make(std::move(storage));
  impl->sizes = sizes;
  impl->strides = strides;
  impl->offset = offset;
  impl->numel = numel;
  impl->dtype = dtype;
  impl->contiguous = layout::is_contiguous(sizes, strides);
  return Tensor(std::move(impl));
}

}  // namespace tendril::raw
