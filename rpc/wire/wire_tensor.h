#pragma once

#include <cstddef>
#include <cstdint>

#include "tendril/tensor/tensor.h"

namespace tendril::rpc {

/// The layout of a tensor's elements in a frame: one block without gaps, with the dimensions in the order of their
/// strides, and without broadcast dimensions (stride 0).
struct DenseLayout {
  Dims strides;          ///< strides of the tensor that the receiver makes over the block
  int64_t elements = 0;  ///< elements in the block
  bool direct = false;   ///< whether the tensor's own memory is such a block
};

/// Returns the layout of a tensor with these sizes and strides. The stride of a dimension of size 1 addresses nothing:
/// it is kept if it is at most the number of elements, and otherwise replaced by the row-major one. A tensor without
/// elements has row-major strides.
DenseLayout dense_layout(const Dims& sizes, const Dims& strides);

/// Copies the tensor's elements, in the order of `layout`, to new memory.
Ref<Storage> pack(const Tensor& tensor, const DenseLayout& layout);

/// Returns a tensor with sizes, but without memory, which represents a lent tensor in a message.
Tensor without_memory(const Dims& sizes, const DenseLayout& layout, DType dtype);

/// Returns an uninitialised tensor over a new block. `layout.direct` must be true.
Tensor make_dense(const Dims& sizes, const DenseLayout& layout, DType dtype);

}  // namespace tendril::rpc
