#pragma once

#include "tendril/tensor/tensor.h"

/// Strided windows on a tensor: what select and slice see, and what in-place operations on views write through.
namespace tendril::autograd {

/// A part of a tensor of shape `base_sizes` laid out by `base_strides`: element (i, j, ...) of the window is at
/// offset + i * strides[0] + j * strides[1] + ... No element of the base is in the window twice.
struct Window {
  Dims base_sizes, base_strides;
  Dims sizes, strides;
  int64_t offset = 0;

  /// Of a tensor thought to be contiguous, all of it; to be narrowed by changing sizes, strides and offset.
  static Window of(const Dims& base_sizes) {
    const Dims strides = contiguous_strides(base_sizes);
    return {base_sizes, strides, base_sizes, strides, 0};
  }
};

/// The window's elements of `base` (whose own strides do not matter), copied.
Tensor take_window(const Tensor& base, const Window& window);
/// Zeros of the base's shape with `part` in the window.
Tensor embed_window(const Tensor& part, const Window& window);
/// `base` with `part` in place of the window's elements, copied.
Tensor put_window(const Tensor& base, const Tensor& part, const Window& window);

/// Records that `view` shows the window of `base`, broadcast to its shape. `name` is what errors call the operation.
void record_window(const Tensor& view, const Tensor& base, const Window& window, const char* name);

/// Records that `out` is `base` with `part` in the window; either may require a gradient.
void record_copy_slices(const Tensor& out, const Tensor& base, const Tensor& part, const Window& window);

/// Where `view` lies in the tensor that it is a view of. Broadcast dimensions have size 1 here: the view's gradient is
/// summed to that.
Window window_of_view(const TensorImpl& view);

}  // namespace tendril::autograd
