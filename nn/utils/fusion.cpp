#include "tendril/nn/utils/fusion.h"

#include <algorithm>
#include <tuple>

#include "tendril/autograd/detail/prepared_conv.h"
#include "tendril/autograd/grad_mode.h"
#include "tendril/autograd/ops/conv.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/tensor/random.h"

namespace tendril::nn::utils {

std::pair<Tensor, Tensor> fuse_conv_bn_weights(const Tensor& conv_weight, const Tensor& conv_bias,
                                               const Tensor& running_mean, const Tensor& running_var, double eps,
                                               const Tensor& bn_weight, const Tensor& bn_bias) {
  constexpr const char* op = "fuse_conv_bn_weights";
  tendril::detail::check_defined(conv_weight, op, "conv_weight");
  TENDRIL_CHECK_AS(ShapeError, conv_weight.dim() > 0, op, ": conv_weight has shape [], expected [out, ...]");
  const int64_t out = conv_weight.size(0);
  for (const auto& [name, t] :
       {std::pair{"conv_bias", &conv_bias}, std::pair{"running_mean", &running_mean},
        std::pair{"running_var", &running_var}, std::pair{"bn_weight", &bn_weight}, std::pair{"bn_bias", &bn_bias}}) {
    if (!t->defined() && t != &running_mean && t != &running_var) continue;
    tendril::detail::check_defined(*t, op, name);
    TENDRIL_CHECK_AS(ShapeError, t->dim() == 1 && t->size(0) == out, op, ": ", name, " has shape ", t->sizes(),
                     ", expected [", out, "]");
  }
  const Tensor r = (running_var + eps).rsqrt(), scale = bn_weight.defined() ? r * bn_weight : r;
  Dims along = Dims::filled(conv_weight.dim(), 1);
  along[0] = out;
  const Tensor shifted = conv_bias.defined() ? conv_bias - running_mean : -running_mean;
  const Tensor bias = shifted * scale;
  const DType dtype = conv_weight.dtype();
  return {(conv_weight * scale.reshape(along)).to(dtype), (bn_bias.defined() ? bias + bn_bias : bias).to(dtype)};
}

Conv2d fuse_conv_bn_eval(const Conv2d& conv, const BatchNorm2d& bn) {
  constexpr const char* op = "fuse_conv_bn_eval";
  TENDRIL_CHECK(!conv.is_training() && !bn.is_training(), op,
                ": got a module in training, expected both in evaluation");
  TENDRIL_CHECK(bn.running_mean.defined(), op, ": bn keeps no running statistics, expected some");
  const NoGrad no_grad;
  const auto [weight, bias] =
      fuse_conv_bn_weights(conv.weight, conv.bias, bn.running_mean, bn.running_var, bn.eps(), bn.weight, bn.bias);
  const ConvGeometry& g = conv.geometry();
  Generator unused(0);
  Conv2d fused(weight.size(1) * g.groups, weight.size(0), {weight.size(2), weight.size(3)},
               {.stride = g.stride,
                .padding = g.padding,
                .dilation = g.dilation,
                .groups = g.groups,
                .dtype = weight.dtype(),
                .device = weight.device(),
                .generator = unused});
  fused.weight.copy_(weight);
  fused.bias.copy_(bias);
  fused.weight.requires_grad_(conv.weight.requires_grad());
  fused.bias.requires_grad_(conv.weight.requires_grad());
  fused.eval();
  return fused;
}

std::array<FusedConv::Source, 6> FusedConv::sources_of(const Conv2d& conv, const BatchNorm2d& bn) {
  std::array<Source, 6> sources;
  auto to = sources.begin();
  for (const Tensor* t : {&conv.weight, &conv.bias, &bn.running_mean, &bn.running_var, &bn.weight, &bn.bias}) {
    if (t->defined()) *to = {t->storage(), t->version()};
    ++to;
  }
  return sources;
}

bool FusedConv::is_current(const Conv2d& conv, const BatchNorm2d& bn) const {
  return std::ranges::equal(sources_, sources_of(conv, bn), [](const Source& a, const Source& b) {
    return a.storage.get() == b.storage.get() && a.version == b.version;
  });
}

FusedConv::FusedConv(const Conv2d& conv, const BatchNorm2d& bn)
    : geometry(conv.geometry()), sources_(sources_of(conv, bn)) {
  TENDRIL_CHECK(bn.running_mean.defined(), "FusedConv: bn keeps no running statistics, expected some");
  const NoGrad no_grad;
  std::tie(weight, bias) =
      fuse_conv_bn_weights(conv.weight, conv.bias, bn.running_mean, bn.running_var, bn.eps(), bn.weight, bn.bias);
}

Tensor FusedConv::operator()(const Tensor& x) const {
  return autograd::detail::conv2d_prepared(x, weight, bias, geometry, false, prepared_);
}
Tensor FusedConv::relu(const Tensor& x) const {
  return autograd::detail::conv2d_prepared(x, weight, bias, geometry, true, prepared_);
}

}  // namespace tendril::nn::utils
