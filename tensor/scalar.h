#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>
#include <iosfwd>
#include <limits>
#include <utility>

#include "tendril/tensor/dtype.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril {

/// A number given where a tensor could be: `x * 2`, `full({3}, 1.5)`. It takes part in type promotion only by its
/// category (bool, integer, floating), as in PyTorch: `int64_tensor * 2` stays int64, `int64_tensor * 2.0` is float32.
/// An unsigned number above INT64_MAX throws DTypeError.
class Scalar {
  template <class T>  // here, for nvcc wants to have read it before the noexcept below
  static constexpr bool is_integer = std::integral<T> && !std::same_as<T, bool>;
  template <class T>
  static constexpr bool may_exceed = std::unsigned_integral<T> && sizeof(T) >= sizeof(int64_t);

 public:
  template <class T>
  requires std::integral<T> || std::floating_point<T> Scalar(T value)
  noexcept(!may_exceed<T>) {  // implicit on purpose: a number is a Scalar
    if constexpr (std::same_as<T, bool>) {
      category_ = kBool;
      integer_ = value;
    } else if constexpr (std::integral<T>) {
      if constexpr (may_exceed<T>) {
        if (value > INT64_MAX) [[unlikely]]
          refuse_large(value);
      }
      category_ = kInt64;
      integer_ = static_cast<int64_t>(value);
    } else {
      category_ = kFloat64;
      floating_ = static_cast<double>(value);
    }
  }

  DType category() const noexcept { return category_; }  ///< kBool, kInt64 or kFloat64
  /// Whether it holds a floating number.
  bool is_floating() const noexcept { return category_ == kFloat64; }
  /// Without its fraction where T is an integer type; throws DTypeError where that is out of T's range, as NaN always
  /// is.
  template <class T>
  T to() const noexcept(!is_integer<T>) {
    if constexpr (is_integer<T>) {
      if (!in_range<T>()) [[unlikely]]
        refuse(std::numeric_limits<T>::min(), std::numeric_limits<T>::max());
    }
    return is_floating() ? static_cast<T>(floating_) : static_cast<T>(integer_);
  }
  /// Whether it can be an element of `dtype`: floating types and bool take any number; integer types what is in their
  /// range, and uint8 also -1 to -255, which wrap around, as in PyTorch.
  bool fits(DType dtype) const noexcept;

 private:
  template <class T>
  bool in_range() const noexcept {
    // Not std::in_range, which takes no characters.
    constexpr T lowest = std::numeric_limits<T>::min(), highest = std::numeric_limits<T>::max();
    if (!is_floating() && integer_ < 0) return static_cast<int64_t>(lowest) <= integer_;
    if (!is_floating()) return static_cast<uint64_t>(integer_) <= static_cast<uint64_t>(highest);
    // Both ends are doubles, the largest number itself may not be.
    constexpr auto least = static_cast<double>(lowest), beyond = 2 * static_cast<double>((highest >> 1) + 1);
    const double whole = std::trunc(floating_);
    return whole >= least && whole < beyond;
  }
  [[noreturn]] static void refuse_large(uint64_t value);
  [[noreturn]] void refuse(std::intmax_t least, std::uintmax_t most) const;

  DType category_;
  union {
    int64_t integer_;
    double floating_;
  };
};

/// As a number.
std::ostream& operator<<(std::ostream& out, const Scalar& value);

namespace detail {
/// Throws DTypeError "OP: the value 1e+30 does not convert to int64" unless it fits.
void check_fits(Scalar value, DType dtype, const char* op);
}  // namespace detail

}  // namespace tendril

TENDRIL_API_END
