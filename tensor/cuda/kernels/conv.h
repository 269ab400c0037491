#pragma once

#include <cstdint>

#include "tendril/tensor/geometry.h"
#include "tendril/tensor/kernels.h"
#include "tendril/tensor/view.h"

/// What the ways to compute a convolution have in common. Needs no CUDA.
namespace tendril::cuda {

/// Which of the three maps of kernels.h: its operand is written, the other two are read.
enum class ConvMap : uint8_t { out, data, filter };

/// "conv2d", "conv2d_data", "conv2d_filter"
const char* name_of(ConvMap map) noexcept;

/// A convolution's operands; none is empty. `channels_last`: all three lie so, else all are contiguous.
struct Conv {
  ConvMap map;
  View x, weight, out;
  ConvGeometry geometry;
  bool channels_last = false;

  const View& result() const noexcept { return map == ConvMap::out ? out : map == ConvMap::data ? x : weight; }
};

/// By cuDNN. False, with nothing issued, where the library was built without it and where cuDNN does not serve these
/// shapes, this dtype or this device, or no memory for any of its algorithms can be had. Does not wait.
bool convolve_by_cudnn(const Conv& conv);

/// As matrix products (tensor/cpu/conv.cpp says how) of columns that kernels of ours arrange. Contiguous; any sizes,
/// all floating dtypes. As many images are done at once as `scratch_bytes` of columns allow, at least one. Does not
/// wait.
void convolve_by_products(const Conv& conv, int64_t scratch_bytes = 64 << 20);

/// Images and their columns matrix, for one group of `count` images: element (c, k, l) of the kernel and place (i, j)
/// of the result meet at row (c kernel_h + k) kernel_w + l and place i q + j.
struct ColumnsShape {
  int64_t count, image_stride;  ///< x's, in elements
  int64_t channels, h, w;
  int64_t kernel_h, kernel_w;
  int64_t p, q;        ///< places of the result
  int64_t row, image;  ///< strides of the columns, in elements; places lie side by side
  ConvGeometry geometry;
};
/// columns = what the places of the result see of x; zeros outside of the image.
void columns_of(const char* op, DType dtype, const void* x, void* columns, const ColumnsShape& shape);
/// The transpose: each element of x = the sum of the columns' elements that were taken from it, always in one order.
void image_of(const char* op, DType dtype, const void* columns, void* x, const ColumnsShape& shape);

}  // namespace tendril::cuda
