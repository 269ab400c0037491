#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "tendril/tensor/error.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril {

namespace detail {
#ifdef NDEBUG
inline constexpr bool kAccessChecked = false;
#else
inline constexpr bool kAccessChecked = true;
#endif
}  // namespace detail

/// N dimensions of elements of type T (const or not) in the memory of a CPU tensor, which it does not own: made by
/// `x.accessor<T, N>()`, to be indexed N times. Costs what a pointer and strides cost; indices are checked (IndexError)
/// in programs that are compiled without NDEBUG. It may outlive a view that it was made by, not the memory.
/// Thread-safety: as a pointer.
template <class T, int N, bool checked = detail::kAccessChecked>
class TensorAccessor {
 public:
  static_assert(N >= 1, "accessor<T, N>: a tensor of no dimensions is read with item<T>()");
  /// Of N sizes and N strides.
  TensorAccessor(T* data, const int64_t* sizes, const int64_t* strides) noexcept : data_(data) {
    std::copy_n(sizes, N, sizes_.begin());
    std::copy_n(strides, N, strides_.begin());
  }

  /// Of a dimension; not checked beyond the class's promise.
  int64_t size(int dim) const noexcept { return sizes_[static_cast<std::size_t>(dim)]; }
  /// In elements.
  int64_t stride(int dim) const noexcept { return strides_[static_cast<std::size_t>(dim)]; }
  /// The address of element 0.
  T* data() const noexcept { return data_; }

  /// An element of a vector, or an accessor with a dimension less; not checked.
  decltype(auto) operator[](int64_t index) const {
    if constexpr (checked) {
      TENDRIL_CHECK_AS(IndexError, index >= 0 && index < sizes_[0], "accessor: index ", index,
                       " is out of range for a dimension of size ", sizes_[0]);
    }
    T* const there = data_ + index * strides_[0];
    if constexpr (N == 1) {
      return static_cast<T&>(*there);
    } else {
      return TensorAccessor<T, N - 1, checked>(there, sizes_.data() + 1, strides_.data() + 1);
    }
  }

 private:
  T* data_;
  std::array<int64_t, N> sizes_, strides_;
};

}  // namespace tendril

TENDRIL_API_END
