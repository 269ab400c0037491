#include "tendril/nn/conv.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "tendril/autograd/detail/prepared_conv.h"
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

Tensor Conv2d::forward(const Tensor& x) const {
  return autograd::detail::conv2d_prepared(x, weight, bias, geometry_, false, prepared_);
}

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
  return autograd::detail::conv2d_prepared(x.unsqueeze(-2), weight.unsqueeze(-2), bias, geometry_, false, prepared_)
      .squeeze(-2);
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

namespace {

/// What both transposed layers refuse before they make anything.
void check_transposed(const char* op, int64_t in, int64_t out, Size2 kernel, const ConvGeometry& g, Size2 extra) {
  const auto positive = [op](Size2 size, const char* name) {
    TENDRIL_CHECK(size.h > 0 && size.w > 0, op, ": ", name, ": got ", size, ", expected positive numbers");
  };
  TENDRIL_CHECK(g.groups > 0, op, ": groups: got ", g.groups, ", expected a positive number");
  TENDRIL_CHECK(in > 0 && in % g.groups == 0, op, ": in_channels: got ", in,
                ", expected a positive multiple of the groups, ", g.groups);
  TENDRIL_CHECK(out > 0 && out % g.groups == 0, op, ": out_channels: got ", out,
                ", expected a positive multiple of the groups, ", g.groups);
  positive(kernel, "kernel_size");
  positive(g.stride, "stride");
  positive(g.dilation, "dilation");
  TENDRIL_CHECK(g.padding.h >= 0 && g.padding.w >= 0, op, ": padding: got ", g.padding,
                ", expected numbers of 0 or more");
  TENDRIL_CHECK(extra.h >= 0 && extra.w >= 0 && extra.h < std::max(g.stride.h, g.dilation.h) &&
                    extra.w < std::max(g.stride.w, g.dilation.w),
                op, ": output_padding: got ", extra, ", expected numbers of 0 or more, below the stride ", g.stride,
                " or the dilation ", g.dilation);
}

/// The output_padding with which the result has the size that was asked for.
int64_t padding_for(const char* op, int64_t wanted, int64_t size, int64_t kernel, int64_t stride, int64_t padding,
                    int64_t dilation) {
  const int64_t least = (size - 1) * stride - 2 * padding + (kernel - 1) * dilation + 1;
  TENDRIL_CHECK_AS(ShapeError, wanted >= least && wanted < least + stride, op, ": output_size: got ", wanted,
                   ", expected a number from ", least, " to ", least + stride - 1, " for x of size ", size);
  return wanted - least;
}

/// The numbers of both in PyTorch's words; one of a pair for sequences.
template <class Number>
std::string describe_transposed(const Tensor& weight, const Tensor& bias, Number kernel, Number stride, Number padding,
                                Number output_padding, Number dilation, int64_t groups) {
  std::ostringstream out;
  out << weight.size(0) << ", " << weight.size(1) * groups << ", kernel_size=" << kernel << ", stride=" << stride;
  if (padding != Number(0)) out << ", padding=" << padding;
  if (dilation != Number(1)) out << ", dilation=" << dilation;
  if (output_padding != Number(0)) out << ", output_padding=" << output_padding;
  if (groups != 1) out << ", groups=" << groups;
  if (!bias.defined()) out << ", bias=false";
  return out.str();
}

}  // namespace

ConvTranspose2d::ConvTranspose2d(int64_t in_channels, int64_t out_channels, Size2 kernel,
                                 const ConvTranspose2dOptions& options)
    : geometry_{options.stride, options.padding, options.dilation, options.groups},
      output_padding_(options.output_padding) {
  check_transposed("ConvTranspose2d", in_channels, out_channels, kernel, geometry_, output_padding_);
  weight = raw::empty({in_channels, out_channels / options.groups, kernel.h, kernel.w}, options.dtype, options.device);
  register_parameter("weight", weight);
  if (options.bias) {
    bias = raw::empty({out_channels}, options.dtype, options.device);
    register_parameter("bias", bias);
  }
  reset_parameters(options.generator);
}

void ConvTranspose2d::reset_parameters(Generator& generator) { draw(weight, bias, generator); }

Tensor ConvTranspose2d::forward(const Tensor& x, const std::optional<Size2>& output_size) const {
  constexpr const char* op = "ConvTranspose2d";
  if (!output_size) return conv_transpose2d(x, weight, bias, geometry_, output_padding_);
  tendril::detail::check_defined(x, op, "x");
  TENDRIL_CHECK_AS(ShapeError, x.dim() == 3 || x.dim() == 4, op, ": x has shape ", x.sizes(),
                   ", expected [batch, in, height, width] or [in, height, width]");
  const ConvGeometry& g = geometry_;
  const Size2 extra(padding_for(op, output_size->h, x.size(-2), weight.size(2), g.stride.h, g.padding.h, g.dilation.h),
                    padding_for(op, output_size->w, x.size(-1), weight.size(3), g.stride.w, g.padding.w, g.dilation.w));
  return conv_transpose2d(x, weight, bias, geometry_, extra);
}

std::string ConvTranspose2d::extra_repr() const {
  return describe_transposed(weight, bias, Size2(weight.size(2), weight.size(3)), geometry_.stride, geometry_.padding,
                             output_padding_, geometry_.dilation, geometry_.groups);
}

ConvTranspose1d::ConvTranspose1d(int64_t in_channels, int64_t out_channels, int64_t kernel,
                                 const ConvTranspose1dOptions& options)
    : geometry_{options.stride, options.padding, options.dilation, options.groups},
      output_padding_(options.output_padding) {
  check_transposed("ConvTranspose1d", in_channels, out_channels, {1, kernel},
                   {{1, options.stride}, {0, options.padding}, {1, options.dilation}, options.groups},
                   {0, output_padding_});
  weight = raw::empty({in_channels, out_channels / options.groups, kernel}, options.dtype, options.device);
  register_parameter("weight", weight);
  if (options.bias) {
    bias = raw::empty({out_channels}, options.dtype, options.device);
    register_parameter("bias", bias);
  }
  reset_parameters(options.generator);
}

void ConvTranspose1d::reset_parameters(Generator& generator) { draw(weight, bias, generator); }

Tensor ConvTranspose1d::forward(const Tensor& x, const std::optional<int64_t>& output_size) const {
  constexpr const char* op = "ConvTranspose1d";
  if (!output_size) return conv_transpose1d(x, weight, bias, geometry_, output_padding_);
  tendril::detail::check_defined(x, op, "x");
  TENDRIL_CHECK_AS(ShapeError, x.dim() == 2 || x.dim() == 3, op, ": x has shape ", x.sizes(),
                   ", expected [batch, in, length] or [in, length]");
  const Conv1dGeometry& g = geometry_;
  return conv_transpose1d(x, weight, bias, g,
                          padding_for(op, *output_size, x.size(-1), weight.size(2), g.stride, g.padding, g.dilation));
}

std::string ConvTranspose1d::extra_repr() const {
  return describe_transposed(weight, bias, weight.size(2), geometry_.stride, geometry_.padding, output_padding_,
                             geometry_.dilation, geometry_.groups);
}

}  // namespace tendril::nn
