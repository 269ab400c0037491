#pragma once

#include "tendril/tensor/dims.h"
#include "tendril/tensor/tensor.h"
#include "tendril/tensor/view.h"

/// How operands and results of attention lie for a device's kernels (kernels.h), which see [..., rows, columns] as
/// [b, h, rows, columns].
namespace tendril::detail {

/// Sizes and strides of [b, h, rows, columns]. The stride of a size of 1 is that of contiguous elements.
struct HeadsLayout {
  Dims sizes, strides;
  DType dtype = kFloat32;

  View view(void* data = nullptr) const;
  bool contiguous() const { return strides == contiguous_strides(sizes); }
  /// The rows of one place lie together, of all heads: [b, rows, h, columns] in memory, as a linear layer has it.
  bool rows_outside() const { return sizes[1] > 1 && sizes[2] > 1 && strides[2] > strides[1]; }
};

/// [..., rows, columns] as [b, h, rows, columns].
Dims in_heads(const Dims& sizes);

/// How the device's kernels are to have x: as it lies if they take it so, else without gaps.
HeadsLayout layout_of(const Tensor& x);
/// Without gaps, in either order.
HeadsLayout dense_layout(const Dims& sizes, DType dtype, bool rows_outside);
/// How a third of a tensor [b, rows, 3, h, columns] without gaps lies, if the device's kernels take it so; else one
/// without gaps of its own.
HeadsLayout layout_of_third(const Dims& all, DType dtype, Device device);

/// [b, h, rows, columns] that lies so, not initialised.
Tensor make(const HeadsLayout& layout, Device device);
/// Whether x lies so, for kernels to read or write it where it is.
bool lies_as(const Tensor& x, const HeadsLayout& layout);
/// x [..., rows, columns] as [b, h, rows, columns] that lies so: x's elements or, where they lie otherwise, a copy.
Tensor laid_as(const Tensor& x, const HeadsLayout& layout);

}  // namespace tendril::detail
