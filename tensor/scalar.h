#pragma once

#include <concepts>
#include <cstdint>
#include <iosfwd>

#include "tendril/tensor/dtype.h"

namespace tendril {

/// A number given where a tensor could be: `x * 2`, `full({3}, 1.5)`. It takes part in type promotion only by its
/// category (bool, integer, floating), as in PyTorch: `int64_tensor * 2` stays int64, `int64_tensor * 2.0` is float32.
class Scalar {
 public:
  template <class T>
  requires std::integral<T> || std::floating_point<T> Scalar(T value)
  noexcept {  // implicit on purpose: a number is a Scalar
    if constexpr (std::same_as<T, bool>) {
      category_ = kBool;
      integer_ = value;
    } else if constexpr (std::integral<T>) {
      category_ = kInt64;
      integer_ = static_cast<int64_t>(value);
    } else {
      category_ = kFloat64;
      floating_ = static_cast<double>(value);
    }
  }

  DType category() const noexcept { return category_; }  ///< kBool, kInt64 or kFloat64
  bool is_floating() const noexcept { return category_ == kFloat64; }
  template <class T>
  T to() const noexcept {
    return is_floating() ? static_cast<T>(floating_) : static_cast<T>(integer_);
  }

 private:
  DType category_;
  union {
    int64_t integer_;
    double floating_;
  };
};

std::ostream& operator<<(std::ostream& out, const Scalar& value);

}  // namespace tendril
