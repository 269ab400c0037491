#pragma once

#include <cstdint>

#include "tendril/tensor/error.h"

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
/// in programs that are compiled without NDEBUG. Thread-safety: as a pointer.
template <class T, int N, bool checked = detail::kAccessChecked>
class TensorAccessor {
 public:
  static_assert(N >= 1, "accessor<T, N>: a tensor of no dimensions is read with item<T>()");
  TensorAccessor(T* data, const int64_t* sizes, const int64_t* strides) noexcept
      : data_(data), sizes_(sizes), strides_(strides) {}

  int64_t size(int dim) const noexcept { return sizes_[dim]; }
  int64_t stride(int dim) const noexcept { return strides_[dim]; }
  T* data() const noexcept { return data_; }

  decltype(auto) operator[](int64_t index) const {
    if constexpr (checked) {
      TENDRIL_CHECK_AS(IndexError, index >= 0 && index < sizes_[0], "accessor: index ", index,
                       " is out of range for a dimension of size ", sizes_[0]);
    }
    T* const there = data_ + index * strides_[0];
    if constexpr (N == 1) {
      return static_cast<T&>(*there);
    } else {
      return TensorAccessor<T, N - 1, checked>(there, sizes_ + 1, strides_ + 1);
    }
  }

 private:
  T* data_;
  const int64_t* sizes_;
  const int64_t* strides_;
};

}  // namespace tendril
