#include "tendril/nn/utils/clip_grad.h"

#include <cmath>

#include "tendril/autograd/accumulate_grad.h"
#include "tendril/autograd/grad_mode.h"
#include "tendril/autograd/ops/join.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/tensor/creation.h"

namespace tendril::nn::utils {

namespace {

/// All are fit to be changed in place.
std::vector<Tensor> gradients_of(const char* op, const std::vector<Tensor>& parameters) {
  std::vector<Tensor> gradients;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    TENDRIL_CHECK(parameters[i].defined(), op, ": parameters[", i, "] is an undefined tensor");
    const Tensor g = parameters[i].grad();
    if (!g.defined()) continue;
    TENDRIL_CHECK(!autograd::is_expanded(g), op, ": the gradient of parameters[", i,
                  "] is expanded, expected one whose elements are all its own (clone() it); nothing was clipped");
    gradients.push_back(g);
  }
  return gradients;
}

/// In float64, because the norm of large float32 numbers can exceed the largest one.
Tensor norm_of(const Tensor& x, double p) {
  if (x.numel() == 0) return zeros({}, {.dtype = kFloat64, .device = x.device()});
  Tensor norm = x.to(computed_in(x.dtype())).norm(p).to(kFloat64);
  if (!x.device().is_cpu() || std::isfinite(norm.item<double>())) return norm;
  return x.to(kFloat64).norm(p);
}

/// Of all of them, in float64.
Tensor wide_norm(const std::vector<Tensor>& tensors, double norm_type) {
  TENDRIL_CHECK(norm_type > 0, "get_total_norm: norm_type: got ", norm_type, ", expected a positive number");
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    TENDRIL_CHECK(tensors[i].defined(), "get_total_norm: tensors[", i, "] is undefined");
  }
  const NoGrad no_grad;
  if (tensors.empty()) return zeros({}, {.dtype = kFloat64});
  std::vector<Tensor> norms;
  for (const Tensor& x : tensors) norms.push_back(norm_of(x, norm_type).to(tensors[0].device()));
  return norm_of(stack(norms, 0), norm_type);
}
/// What they have in common, as the norm's in PyTorch.
DType common_dtype(const std::vector<Tensor>& tensors) {
  DType common = tensors.empty() ? kFloat32 : tensors[0].dtype();
  for (const Tensor& x : tensors) common = promote(common, x.dtype());
  return common;
}

}  // namespace

Tensor get_total_norm(const std::vector<Tensor>& tensors, double norm_type) {
  return wide_norm(tensors, norm_type).to(common_dtype(tensors));
}

Tensor clip_grad_norm_(const std::vector<Tensor>& parameters, double max_norm, const ClipGradNormOptions& options) {
  TENDRIL_CHECK(max_norm >= 0, "clip_grad_norm_: max_norm: got ", max_norm, ", expected a number of 0 or more");
  const std::vector<Tensor> gradients = gradients_of("clip_grad_norm_", parameters);
  Tensor norm = wide_norm(gradients, options.norm_type);
  if (gradients.empty()) return norm.to(common_dtype(gradients));
  const NoGrad no_grad;
  if (options.error_if_nonfinite) {
    const auto value = norm.item<double>();
    TENDRIL_CHECK(std::isfinite(value), "clip_grad_norm_: the norm of the gradients is ", value,
                  ", expected a finite number (error_if_nonfinite); nothing was clipped");
  }
  // Multiplying by 1 costs less than waiting for the number.
  const Tensor factor = (max_norm / (norm + 1e-6)).clamp(std::nullopt, 1.0);
  for (const Tensor& gradient : gradients) {
    gradient.mul_(factor.to(gradient.device()).to(computed_in(gradient.dtype())));
  }
  return norm.to(common_dtype(gradients));
}

void clip_grad_value_(const std::vector<Tensor>& parameters, double clip_value) {
  TENDRIL_CHECK(clip_value >= 0, "clip_grad_value_: clip_value: got ", clip_value, ", expected a number of 0 or more");
  const NoGrad no_grad;
  for (const Tensor& gradient : gradients_of("clip_grad_value_", parameters)) gradient.clamp_(-clip_value, clip_value);
}

}  // namespace tendril::nn::utils
