#pragma once

#include <cstddef>
#include <cstdint>

#include "tendril/tensor/tensor.h"

namespace tendril::rpc {

/// How a tensor's elements lie in a frame: one block without gaps, the dimensions in the order of their strides, those
/// that are broadcast (stride 0) left out.
struct DenseLayout {
  Dims strides;          ///< of the tensor that the receiver makes over the block
  int64_t elements = 0;  ///< in the block
  bool direct = false;   ///< the tensor's own memory is such a block
};

/// The layout of a tensor with these sizes and strides. The stride of a dimension of size 1 addresses nothing: it is
/// kept up to the number of elements, else it is the row-major one. A tensor without elements has row-major strides.
DenseLayout dense_layout(const Dims& sizes, const Dims& strides);

/// The tensor's elements as `layout` orders them, in memory of their own.
Ref<Storage> pack(const Tensor& tensor, const DenseLayout& layout);

/// A tensor that knows its sizes and has no memory: what stands in a message for one that is lent.
Tensor without_memory(const Dims& sizes, const DenseLayout& layout, DType dtype);

/// An uninitialised tensor over a new block. `layout.direct` must hold.
Tensor make_dense(const Dims& sizes, const DenseLayout& layout, DType dtype);

}  // namespace tendril::rpc
