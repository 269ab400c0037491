#pragma once

#include <cstdint>

#include "tendril/tensor/dtype.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril {

/// What a kernel sees of a tensor: borrowed, on the stack, with no way back to the tensor.
struct View {
  void* data;              ///< element 0
  const int64_t* sizes;    ///< `ndim` of them
  const int64_t* strides;  ///< in elements; 0 where broadcast
  int64_t numel;
  int ndim;
  DType dtype;
  bool contiguous;  ///< row-major without gaps
  /// One number in the host's memory, repeated for every element: for operands that kernels.h says may be so. A
  /// device's kernel reads it when it is called; the CPU's need not look, but for the dtype.
  bool host = false;

  template <class T>
  T* as() const noexcept {
    return static_cast<T*>(data);
  }
};

}  // namespace tendril

TENDRIL_API_END
