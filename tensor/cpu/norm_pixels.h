#pragma once

#include "tendril/tensor/view.h"

/// Batch normalisation of images in channels-last order (norm_pixels.cpp): as in kernels.h, but that x and what is like
/// it are [n, c, s] with the channels side by side.
namespace tendril::cpu {

void batch_norm_pixels(const View& out, const View& mean, const View& var, const View& x, const View* weight,
                       const View* bias, const View* residual, bool relu, double eps, bool batch);
/// `out` is the forward result where there was a relu, else null.
void batch_norm_pixels_backward(const View* dx, const View* dweight, const View* dbias, const View* dresidual,
                                const View& g, const View* out, const View& x, const View& mean, const View& var,
                                const View* weight, double eps, bool batch);

}  // namespace tendril::cpu
