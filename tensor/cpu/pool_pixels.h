#pragma once

#include "tendril/tensor/geometry.h"
#include "tendril/tensor/kernels.h"

/// Pooling of images in channels-last order (pool_pixels.cpp), float32 and float64: contracts in kernels.h.
namespace tendril::cpu {

/// The first place at or after `start`, in steps, that is not before the image.
inline int64_t first_inside(int64_t start, int64_t step) {
  return start >= 0 ? start : start + (-start + step - 1) / step * step;
}

void max_pool2d_pixels(const View& out, const View& indices, const View& x, const PoolGeometry& geometry);
void max_pool2d_backward_pixels(const View& dx, const View& g, const View& indices);
void mean_pool2d_pixels(const View& out, const View& x, const PoolAxis& h, const PoolAxis& w);
void mean_pool2d_transpose_pixels(const View& x, const View& out, const PoolAxis& h, const PoolAxis& w);

}  // namespace tendril::cpu
