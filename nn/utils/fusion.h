#pragma once

#include <array>
#include <cstdint>
#include <utility>

#include "tendril/nn/batch_norm.h"
#include "tendril/nn/conv.h"
#include "tendril/tensor/detail/prepared_weight.h"
#include "tendril/tensor/export.h"
#include "tendril/tensor/tensor.h"

TENDRIL_API_BEGIN

/// Batch normalisation of evaluation taken into the convolution before it (PyTorch's torch.nn.utils.fusion): it is
/// linear by then, out = (conv(x) - mean) / sqrt(var + eps) * weight + bias.
namespace tendril::nn::utils {

/// Weight and bias of the convolution that does both. conv_bias, bn_weight and bn_bias may be undefined: 0, 1 and 0.
/// conv_weight is [out, ...], the others [out]; one floating dtype, but that running statistics beside half types may
/// be float32. Recorded as other operations are.
std::pair<Tensor, Tensor> fuse_conv_bn_weights(const Tensor& conv_weight, const Tensor& conv_bias,
                                               const Tensor& running_mean, const Tensor& running_var, double eps,
                                               const Tensor& bn_weight, const Tensor& bn_bias);

/// A new convolution, with parameters of its own. Error unless both are in evaluation, and bn keeps running statistics.
Conv2d fuse_conv_bn_eval(const Conv2d& conv, const BatchNorm2d& bn);

/// What fuse_conv_bn_eval makes, as no module: for models that keep it beside their layers.
/// Thread-safety: may be called by several threads.
struct FusedConv {
  /// Of the parameters and statistics as they are now, whether in training or not. Error unless bn keeps statistics.
  FusedConv(const Conv2d& conv, const BatchNorm2d& bn);
  Tensor operator()(const Tensor& x) const;  ///< x is [N, in, H, W]; as the two layers after each other
  Tensor relu(const Tensor& x) const;        ///< relu of that, in one pass
  /// Whether the layers that it was made of have the same elements as then.
  bool is_current(const Conv2d& conv, const BatchNorm2d& bn) const;

  Tensor weight, bias;    ///< with the normalisation in them
  ConvGeometry geometry;  ///< the convolution's

 private:
  /// An operand's memory, and how often that had been changed.
  struct Source {
    Ref<Storage> storage;
    uint32_t version = 0;
  };
  static std::array<Source, 6> sources_of(const Conv2d& conv, const BatchNorm2d& bn);

  std::array<Source, 6> sources_;
  mutable tendril::detail::PreparedWeight prepared_;
};

}  // namespace tendril::nn::utils

TENDRIL_API_END
