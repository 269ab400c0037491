#pragma once

#include "tendril/tensor/dtype.h"
#include "tendril/tensor/error.h"

namespace tendril::detail {

template <class T>
struct TypeTag {
  using type = T;
};

/// Calls `f(TypeTag<T>{})` with the C++ type of `dtype`.
template <class F>
decltype(auto) visit(DType dtype, F&& f) {
  switch (dtype) {
    case DType::float32:
      return f(TypeTag<float>{});
    case DType::float64:
      return f(TypeTag<double>{});
    case DType::int64:
      return f(TypeTag<int64_t>{});
    case DType::int32:
      return f(TypeTag<int32_t>{});
    case DType::uint8:
      return f(TypeTag<uint8_t>{});
    case DType::boolean:
      return f(TypeTag<bool>{});
    case DType::float16:
      return f(TypeTag<Half>{});
    case DType::bfloat16:
      return f(TypeTag<BFloat16>{});
  }
  raise<DTypeError>("unknown dtype ", static_cast<int>(dtype));
}

/// Elements of one size are the same to who only moves them: calls `f(TypeTag<U>{})` with the unsigned integer of the
/// size of `dtype`'s elements.
template <class F>
decltype(auto) visit_bits(DType dtype, F&& f) {
  switch (size_of(dtype)) {
    case 1:
      return f(TypeTag<uint8_t>{});
    case 2:
      return f(TypeTag<uint16_t>{});
    case 4:
      return f(TypeTag<uint32_t>{});
    default:
      return f(TypeTag<uint64_t>{});
  }
}

}  // namespace tendril::detail
