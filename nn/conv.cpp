#include "tendril/nn/conv.h"

#include <cmath>
#include <sstream>

#include "tendril/autograd/ops/conv.h"
#include "tendril/nn/init.h"
#include "tendril/tensor/raw.h"

namespace tendril::nn {

namespace {

void draw(const Tensor& weight, const Tensor& bias, Generator& generator) {
  // PyTorch's kaiming_uniform_ with a = sqrt(5): sqrt(6 / ((1 + 5) fan_in)).
  const double bound = 1 / std::sqrt(static_cast<double>(init::calculate_fans(weight).in));
  init::uniform_(weight, -bound, bound, generator);
  if (bias.defined()) init::uniform_(bias, -bound, bound, generator);
}

}  // namespace

Conv2d::Conv2d(int64_t in_channels, int64_t out_channels, Size2 kernel, const Conv2dOptions& options)
    : geometry_{options.stride, options.padding, options.dilation, options.groups} {
  const auto positive = [](Size2 size, const char* name) {
    TENDRIL_CHECK(size.h > 0 && size.w > 0, "Conv2d: ", name, ": got ", size, ", expected positive numbers");
  };
  TENDRIL_CHECK(options.groups > 0, "Conv2d: groups: got ", options.groups, ", expected a positive number");
  TENDRIL_CHECK(in_channels > 0 && in_channels % options.groups == 0, "Conv2d: in_channels: got ", in_channels,
                ", expected a positive multiple of the groups, ", options.groups);
  TENDRIL_CHECK(out_channels > 0 && out_channels % options.groups == 0, "Conv2d: out_channels: got ", out_channels,
                ", expected a positive multiple of the groups, ", options.groups);
  positive(kernel, "kernel_size");
  positive(options.stride, "stride");
  positive(options.dilation, "dilation");
  TENDRIL_CHECK(options.padding.h >= 0 && options.padding.w >= 0, "Conv2d: padding: got ", options.padding,
                ", expected numbers of 0 or more");
  weight = raw::empty({out_channels, in_channels / options.groups, kernel.h, kernel.w}, options.dtype, options.device);
  register_parameter("weight", weight);
  if (options.bias) {
    bias = raw::empty({out_channels}, options.dtype, options.device);
    register_parameter("bias", bias);
  }
  reset_parameters(options.generator);
}

void Conv2d::reset_parameters(Generator& generator) { draw(weight, bias, generator); }

Tensor Conv2d::forward(const Tensor& x) const { return conv2d(x, weight, bias, geometry_); }

std::string Conv2d::extra_repr() const {
  std::ostringstream out;
  out << weight.size(1) * geometry_.groups << ", " << weight.size(0)
      << ", kernel_size=" << Size2(weight.size(2), weight.size(3)) << ", stride=" << geometry_.stride;
  if (geometry_.padding != Size2(0)) out << ", padding=" << geometry_.padding;
  if (geometry_.dilation != Size2(1)) out << ", dilation=" << geometry_.dilation;
  if (geometry_.groups != 1) out << ", groups=" << geometry_.groups;
  if (!bias.defined()) out << ", bias=false";
  return out.str();
}

Conv1d::Conv1d(int64_t in_channels, int64_t out_channels, int64_t kernel, const Conv1dOptions& options)
    : geometry_{{1, options.stride}, {0, options.padding}, {1, options.dilation}, options.groups} {
  const auto positive = [](int64_t number, const char* name) {
    TENDRIL_CHECK(number > 0, "Conv1d: ", name, ": got ", number, ", expected a positive number");
  };
  positive(options.groups, "groups");
  TENDRIL_CHECK(in_channels > 0 && in_channels % options.groups == 0, "Conv1d: in_channels: got ", in_channels,
                ", expected a positive multiple of the groups, ", options.groups);
  TENDRIL_CHECK(out_channels > 0 && out_channels % options.groups == 0, "Conv1d: out_channels: got ", out_channels,
                ", expected a positive multiple of the groups, ", options.groups);
  positive(kernel, "kernel_size");
  positive(options.stride, "stride");
  positive(options.dilation, "dilation");
  TENDRIL_CHECK(options.padding >= 0, "Conv1d: padding: got ", options.padding, ", expected a number of 0 or more");
  weight = raw::empty({out_channels, in_channels / options.groups, kernel}, options.dtype, options.device);
  register_parameter("weight", weight);
  if (options.bias) {
    bias = raw::empty({out_channels}, options.dtype, options.device);
    register_parameter("bias", bias);
  }
  reset_parameters(options.generator);
}

void Conv1d::reset_parameters(Generator& generator) { draw(weight, bias, generator); }

Tensor Conv1d::forward(const Tensor& x) const {
  TENDRIL_CHECK(x.defined(), "Conv1d: x is an undefined tensor");
  TENDRIL_CHECK_AS(ShapeError, (x.dim() == 2 || x.dim() == 3) && x.size(-2) == weight.size(1) * geometry_.groups,
                   "Conv1d: x has shape ", x.sizes(), ", expected [batch, ", weight.size(1) * geometry_.groups,
                   ", length] or without the batch");
  return conv2d(x.unsqueeze(-2), weight.unsqueeze(-2), bias, geometry_).squeeze(-2);
}

std::string Conv1d::extra_repr() const {
  std::ostringstream out;
  out << weight.size(1) * geometry_.groups << ", " << weight.size(0) << ", kernel_size=" << weight.size(2)
      << ", stride=" << geometry_.stride.w;
  if (geometry_.padding.w != 0) out << ", padding=" << geometry_.padding.w;
  if (geometry_.dilation.w != 1) out << ", dilation=" << geometry_.dilation.w;
  if (geometry_.groups != 1) out << ", groups=" << geometry_.groups;
  if (!bias.defined()) out << ", bias=false";
  return out.str();
}

}  // namespace tendril::nn
