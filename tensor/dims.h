#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <span>
#include <vector>

#include "tendril/tensor/error.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril {

/// Sizes or strides of a tensor: at most `kMaxDims` signed 64-bit numbers, stored inline (no allocation).
/// Converts from a number, an initializer list, a span and a vector, so that `x.reshape({2, -1})` reads as expected.
class Dims {
 public:
  static constexpr int kMaxDims = 8;  ///< of a tensor

  Dims() noexcept : count_(0) {}
  Dims(std::initializer_list<int64_t> values) : Dims(std::span<const int64_t>(values.begin(), values.size())) {}
  /// One number, so that `x.sum(0)` and `zeros(3)` mean what they say.
  template <class T>
  requires(std::integral<T> && !std::same_as<T, bool>) Dims(T value)
  noexcept : count_(1) { values_[0] = static_cast<int64_t>(value); }
  Dims(const std::vector<int64_t>& values) : Dims(std::span<const int64_t>(values)) {}
  Dims(std::span<const int64_t> values) : count_(static_cast<int>(values.size())) {
    TENDRIL_CHECK_AS(ShapeError, values.size() <= kMaxDims, "a tensor has at most ", kMaxDims, " dimensions, got ",
                     values.size());
    std::copy(values.begin(), values.end(), values_.begin());
  }
  /// `count` copies of `value`.
  static Dims filled(int count, int64_t value) {
    TENDRIL_CHECK_AS(ShapeError, count >= 0 && count <= kMaxDims, "a tensor has at most ", kMaxDims,
                     " dimensions, got ", count);
    Dims dims;
    dims.count_ = count;
    std::fill_n(dims.values_.begin(), count, value);
    return dims;
  }

  /// How many numbers.
  int size() const noexcept { return count_; }
  /// Makes it `count` numbers (at most kMaxDims) that are still to be written.
  void set_size(int count) noexcept { count_ = count; }
  /// Whether there is none.
  bool empty() const noexcept { return count_ == 0; }
  /// Of dimension i, 0 <= i < size(); not checked.
  int64_t operator[](int i) const noexcept { return values_[static_cast<std::size_t>(i)]; }
  int64_t& operator[](int i) noexcept { return values_[static_cast<std::size_t>(i)]; }
  /// The last number.
  int64_t back() const noexcept { return (*this)[count_ - 1]; }
  /// The first number's address.
  const int64_t* data() const noexcept { return values_.data(); }
  /// The first number's address.
  int64_t* data() noexcept { return values_.data(); }
  /// The first number.
  const int64_t* begin() const noexcept { return values_.data(); }
  int64_t* begin() noexcept { return values_.data(); }
  /// Behind the last number.
  const int64_t* end() const noexcept { return values_.data() + count_; }
  int64_t* end() noexcept { return values_.data() + count_; }

  /// Adds a number at the end. ShapeError where there is no room.
  void push_back(int64_t value) { insert(count_, value); }
  /// Adds a number in front of a place.
  void insert(int position, int64_t value) {
    TENDRIL_CHECK_AS(ShapeError, count_ < kMaxDims, "a tensor has at most ", kMaxDims, " dimensions");
    // g++ 14 warns of std::copy_backward: it sees a negative length where position is not known.
    for (int i = count_++; i > position; --i) (*this)[i] = (*this)[i - 1];
    (*this)[position] = value;
  }
  /// Takes a number out.
  void erase(int position) noexcept {
    std::copy(begin() + position + 1, end(), begin() + position);
    --count_;
  }

  friend bool operator==(const Dims& a, const Dims& b) noexcept {
    if (a.count_ != b.count_) return false;
    for (int i = 0; i < a.count_; ++i) {  // std::equal would call memcmp for two numbers
      if (a[i] != b[i]) return false;
    }
    return true;
  }

 private:
  int count_;
  // Only the first count_ mean anything, but all are copied: nine known words cost less than a call for one or two.
  std::array<int64_t, kMaxDims> values_;
};

/// Prints `[2, 3]`.
std::ostream& operator<<(std::ostream& out, const Dims& dims);

/// The product of the sizes; 1 for no dimensions. Throws ShapeError for a negative size or a product over 2^63 - 1.
int64_t numel_of(const Dims& sizes);

/// Row-major strides, in elements, written where they are to be: a copy of numbers just written would have to wait for
/// them.
inline void make_contiguous_strides(const Dims& sizes, Dims& strides) noexcept {
  strides.set_size(sizes.size());
  uint64_t step = 1;  // unsigned: beside a size of 0 the others may be absurd
  for (int i = sizes.size() - 1; i >= 0; --i) {
    strides[i] = static_cast<int64_t>(step);
    step *= static_cast<uint64_t>(std::max<int64_t>(sizes[i], 1));
  }
}
/// Of row-major elements without gaps.
inline Dims contiguous_strides(const Dims& sizes) noexcept {
  Dims strides;
  make_contiguous_strides(sizes, strides);
  return strides;
}

/// NumPy's rule: align at the right, sizes must be equal or 1. Throws ShapeError naming `op`.
Dims broadcast_shapes(const Dims& a, const Dims& b, const char* op);

/// `dim` counted from the front: [-ndim, ndim) becomes [0, ndim); for ndim 0 both 0 and -1 are 0, as in PyTorch.
/// Throws IndexError naming `op`.
int wrap_dim(int64_t dim, int ndim, const char* op);

}  // namespace tendril

TENDRIL_API_END
