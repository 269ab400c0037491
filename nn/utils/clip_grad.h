#pragma once

#include <vector>

#include "tendril/tensor/export.h"
#include "tendril/tensor/tensor.h"

TENDRIL_API_BEGIN

/// Gradients kept small, between backward and the optimizer's step. `.grad`s are changed in place; parameters without
/// one are passed over; one that is expanded is an Error before any is changed. Nothing is read back to the host unless
/// an error is asked for. Thread-safety: one thread at a time for the same parameters.
namespace tendril::nn::utils {

struct ClipGradNormOptions {
  double norm_type = 2;             ///< 1, 2, ..., or infinity
  bool error_if_nonfinite = false;  ///< waits for the norm, and throws Error before anything is changed
};

/// Scales all gradients by max_norm / (norm + 1e-6) where that is below 1; norm is that of all of them as one vector.
/// Returns it, as it was: 0-d, of the first gradient's dtype and device; float32 0 where there is none. As PyTorch's.
/// Throws Error unless max_norm is 0 or more and norm_type above 0.
Tensor clip_grad_norm_(const std::vector<Tensor>& parameters, double max_norm, const ClipGradNormOptions& options = {});

/// The norm alone.
Tensor get_total_norm(const std::vector<Tensor>& tensors, double norm_type = 2);

/// Keeps each element of each gradient within [-clip_value, clip_value]. Throws Error unless that is 0 or more.
void clip_grad_value_(const std::vector<Tensor>& parameters, double clip_value);

}  // namespace tendril::nn::utils

TENDRIL_API_END
