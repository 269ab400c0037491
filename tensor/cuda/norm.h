#pragma once

#include <cstdint>

#include "tendril/tensor/view.h"

/// Batch normalisation of float32 by the batch's own statistics, by cuDNN (dnn_norm.cpp; dnn_absent.cpp without it).
/// Everything else is norm.cu's. Nothing here waits.
namespace tendril::cuda {

/// As Kernels::batch_norm and batch_norm_backward with `batch`. False, with nothing issued, for what cuDNN does not
/// serve.
bool batch_norm_by_cudnn(const View& out, const View& mean, const View& var, const View& x, const View* weight,
                         const View* bias, double eps);
bool batch_norm_backward_by_cudnn(const View* dx, const View* dweight, const View* dbias, const View& g, const View& x,
                                  const View& mean, const View& var, const View* weight, double eps);

// What it takes beside cuDNN (norm_channels.cu), for arrays of `channels` numbers; those that are null are left out.
void fill_channels(const char* op, float* zeros, float* more_zeros, float* still_more_zeros, float* ones,
                   int64_t channels);
void scale_channels(const char* op, float* values, double factor, int64_t channels);
/// inverse = 1 / sqrt(var + eps)
void invert_channels(const char* op, float* inverse, const float* var, double eps, float* ones, int64_t channels);

}  // namespace tendril::cuda
