#include "tendril/nn/layer_norm.h"

#include <limits>
#include <sstream>

#include "tendril/autograd/ops/layer_norm.h"
#include "tendril/tensor/raw.h"

namespace tendril::nn {

namespace {

void check_shape(const char* op, const Dims& shape) {
  bool positive = !shape.empty();
  for (const int64_t size : shape) positive = positive && size > 0;
  TENDRIL_CHECK(positive, op, ": normalized_shape: got ", shape, ", expected positive sizes");
}
void check_eps(const char* op, double eps) {
  TENDRIL_CHECK(eps >= 0, op, ": eps: got ", eps, ", expected a number of 0 or more");
}

const char* word(bool value) { return value ? "true" : "false"; }

}  // namespace

LayerNorm::LayerNorm(const Dims& normalized_shape, const LayerNormOptions& options)
    : shape_(normalized_shape), eps_(options.eps) {
  check_shape("LayerNorm", shape_);
  check_eps("LayerNorm", eps_);
  if (!options.elementwise_affine) return;
  weight = raw::ones(shape_, options.dtype, options.device);
  register_parameter("weight", weight);
  if (!options.bias) return;
  bias = raw::zeros(shape_, options.dtype, options.device);
  register_parameter("bias", bias);
}

Tensor LayerNorm::forward(const Tensor& x) const { return layer_norm(x, shape_, weight, bias, eps_); }

std::string LayerNorm::extra_repr() const {
  std::ostringstream out;
  out << shape_ << ", eps=" << eps_ << ", elementwise_affine=" << word(weight.defined());
  return out.str();
}

RMSNorm::RMSNorm(const Dims& normalized_shape, const RMSNormOptions& options)
    : shape_(normalized_shape), eps_(options.eps) {
  check_shape("RMSNorm", shape_);
  if (eps_) check_eps("RMSNorm", *eps_);
  if (!options.elementwise_affine) return;
  weight = raw::ones(shape_, options.dtype, options.device);
  register_parameter("weight", weight);
}

Tensor RMSNorm::forward(const Tensor& x) const {
  TENDRIL_CHECK(x.defined(), "RMSNorm: x is an undefined tensor");
  const double smallest = x.dtype() == kFloat64 ? std::numeric_limits<double>::epsilon()
                                                : static_cast<double>(std::numeric_limits<float>::epsilon());
  return rms_norm(x, shape_, weight, eps_.value_or(smallest));
}

std::string RMSNorm::extra_repr() const {
  std::ostringstream out;
  out << shape_ << ", eps=";
  if (eps_) {
    out << *eps_;
  } else {
    out << "none";
  }
  out << ", elementwise_affine=" << word(weight.defined());
  return out.str();
}

GroupNorm::GroupNorm(int64_t num_groups, int64_t num_channels, const GroupNormOptions& options)
    : groups_(num_groups), channels_(num_channels), eps_(options.eps) {
  TENDRIL_CHECK(num_groups > 0, "GroupNorm: num_groups: got ", num_groups, ", expected a positive number");
  TENDRIL_CHECK(num_channels > 0 && num_channels % num_groups == 0, "GroupNorm: num_channels: got ", num_channels,
                ", expected a positive multiple of the groups, ", num_groups);
  check_eps("GroupNorm", eps_);
  if (!options.affine) return;
  weight = raw::ones({num_channels}, options.dtype, options.device);
  bias = raw::zeros({num_channels}, options.dtype, options.device);
  register_parameter("weight", weight);
  register_parameter("bias", bias);
}

Tensor GroupNorm::forward(const Tensor& x) const {
  TENDRIL_CHECK(x.defined(), "GroupNorm: x is an undefined tensor");
  TENDRIL_CHECK_AS(ShapeError, x.dim() >= 2 && x.size(1) == channels_, "GroupNorm: x has shape ", x.sizes(),
                   ", expected [batch, ", channels_, ", ...]");
  return group_norm(x, groups_, weight, bias, eps_);
}

std::string GroupNorm::extra_repr() const {
  std::ostringstream out;
  out << groups_ << ", " << channels_ << ", eps=" << eps_ << ", affine=" << word(weight.defined());
  return out.str();
}

}  // namespace tendril::nn
