#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <iosfwd>

#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril {

/// Element types. Values are part of the RPC wire format: never renumber.
enum class DType : uint8_t {
  float32 = 0,   ///< kFloat32
  float64 = 1,   ///< kFloat64
  int64 = 2,     ///< kInt64
  int32 = 3,     ///< kInt32
  uint8 = 4,     ///< kUInt8
  boolean = 5,   ///< kBool
  float16 = 6,   ///< kFloat16
  bfloat16 = 7,  ///< kBFloat16
};
inline constexpr int kNumDTypes = 8;                 ///< how many there are
inline constexpr DType kFloat32 = DType::float32;    ///< IEEE 754 binary32, `float`
inline constexpr DType kFloat64 = DType::float64;    ///< IEEE 754 binary64, `double`
inline constexpr DType kInt64 = DType::int64;        ///< `int64_t`, the dtype of indices
inline constexpr DType kInt32 = DType::int32;        ///< `int32_t`
inline constexpr DType kUInt8 = DType::uint8;        ///< `uint8_t`, a byte
inline constexpr DType kBool = DType::boolean;       ///< `bool`, a byte that is 0 or 1
inline constexpr DType kFloat16 = DType::float16;    ///< Half
inline constexpr DType kBFloat16 = DType::bfloat16;  ///< BFloat16

namespace detail {
// Not inside the function: there it would be built on the stack for every call.
inline constexpr std::size_t kElementBytes[kNumDTypes] = {4, 8, 8, 4, 1, 1, 2, 2};
}  // namespace detail
/// Bytes of an element.
constexpr std::size_t size_of(DType dtype) noexcept { return detail::kElementBytes[static_cast<int>(dtype)]; }
/// float32, float64 and the half types, float16 and bfloat16.
constexpr bool is_floating(DType dtype) noexcept {
  return dtype == kFloat32 || dtype == kFloat64 || dtype == kFloat16 || dtype == kBFloat16;
}
/// The integers; not bool.
constexpr bool is_integral(DType dtype) noexcept { return dtype == kInt64 || dtype == kInt32 || dtype == kUInt8; }

/// What arithmetic on elements of a dtype happens in: float32 for the half types, otherwise the dtype itself.
constexpr DType computed_in(DType dtype) noexcept { return dtype == kFloat16 || dtype == kBFloat16 ? kFloat32 : dtype; }

const char* name_of(DType dtype) noexcept;  ///< "float32", ..., as PyTorch prints them; "bool" for boolean
/// Its name, "float32".
std::ostream& operator<<(std::ostream& out, DType dtype);

/// PyTorch's promotion of two tensors' dtypes: the higher category (bool < integer < floating) wins, within one
/// category the wider type, and float16 with bfloat16 gives float32; uint8 with int32/int64 gives the signed type.
/// (https://pytorch.org/docs/stable/tensor_attributes.html#type-promotion-doc)
DType promote(DType a, DType b) noexcept;

/// IEEE 754 binary16, a storage format: arithmetic happens in float.
struct Half {
  uint16_t bits = 0;  ///< as stored
  Half() = default;
  explicit Half(float value) noexcept;
  explicit operator float() const noexcept;  ///< exact
};

/// The upper half of an IEEE 754 binary32, a storage format: arithmetic happens in float. Rounds to nearest even.
struct BFloat16 {
  uint16_t bits = 0;  ///< as stored
  BFloat16() = default;
  // Always inline: loops that are compiled for several processors call it, and it becomes vector code.
  [[gnu::always_inline]] explicit BFloat16(float value) noexcept {
    const uint32_t word = std::bit_cast<uint32_t>(value);
    const bool nan = (word & 0x7fffffff) > 0x7f800000;
    bits = static_cast<uint16_t>((nan ? word | 0x400000 : word + 0x7fff + (word >> 16 & 1)) >> 16);
  }
  /// Exact.
  [[gnu::always_inline]] explicit operator float() const noexcept {
    return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  }
};

/// The DType of a C++ type, `DTypeOf<float>::value` say.
template <class T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType value = kFloat32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = kFloat64;
};
template <>
struct DTypeOf<int64_t> {
  static constexpr DType value = kInt64;
};
template <>
struct DTypeOf<int32_t> {
  static constexpr DType value = kInt32;
};
template <>
struct DTypeOf<uint8_t> {
  static constexpr DType value = kUInt8;
};
template <>
struct DTypeOf<bool> {
  static constexpr DType value = kBool;
};
template <>
struct DTypeOf<Half> {
  static constexpr DType value = kFloat16;
};
template <>
struct DTypeOf<BFloat16> {
  static constexpr DType value = kBFloat16;
};
template <class T>
inline constexpr DType dtype_of = DTypeOf<T>::value;  ///< of a C++ type

}  // namespace tendril

TENDRIL_API_END
