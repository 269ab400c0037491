#pragma once

#include "tendril/nn/transformer.h"

/// What encoder and decoder layers give to the layers that they are made of.
namespace tendril::nn::detail {

inline MultiheadAttentionOptions attention_options(const TransformerEncoderLayerOptions& o) {
  return {.dropout = o.dropout,
          .bias = o.bias,
          .batch_first = o.batch_first,
          .dtype = o.dtype,
          .device = o.device,
          .generator = o.generator};
}
inline LinearOptions linear_options(const TransformerEncoderLayerOptions& o) {
  return {.bias = o.bias, .dtype = o.dtype, .device = o.device, .generator = o.generator};
}
inline LayerNormOptions norm_options(const TransformerEncoderLayerOptions& o) {
  return {.eps = o.layer_norm_eps, .bias = o.bias, .dtype = o.dtype, .device = o.device};
}

}  // namespace tendril::nn::detail
