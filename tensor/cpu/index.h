#pragma once

#include "tendril/tensor/dims.h"
#include "tendril/tensor/kernels.h"
#include "tendril/tensor/view.h"

/// What kernels that read by index and those that write by index have in common.
namespace tendril::cpu {

/// Throws IndexError in the words of `use` for the first of the indices that is not in [0, size).
void check_indices(const View& index, int64_t size, int dim, IndexUse use);

/// A 1-d index seen along `dim` of something with `like`'s other dimensions.
struct Spread {
  Spread(const View& index, const View& like, int dim) : strides(Dims::filled(like.ndim, 0)) {
    strides[dim] = index.ndim == 0 ? 0 : index.strides[0];
    view = {index.data, like.sizes, strides.data(), like.numel, like.ndim, kInt64, false};
  }
  Spread(const Spread&) = delete;
  Dims strides;
  View view;
};

/// All dimensions behind `dim` lie together: a slice at one index is one block of memory.
inline bool slices_lie_together(const View& x, int dim) noexcept {
  int64_t expected = 1;
  for (int d = x.ndim - 1; d > dim; --d) {
    if (x.sizes[d] != 1 && x.strides[d] != expected) return false;
    expected *= x.sizes[d];
  }
  return true;
}

}  // namespace tendril::cpu
