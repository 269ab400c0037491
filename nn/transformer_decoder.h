#pragma once

#include <cstdint>
#include <memory>

#include "tendril/nn/transformer.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::nn {

/// As of an encoder's layer.
using TransformerDecoderLayerOptions = TransformerEncoderLayerOptions;

/// What positions see: masks as MultiheadAttention's, true or -infinity where nothing is seen.
struct TransformerDecoderMasks {
  Tensor tgt_mask = {};                 ///< [L, L] or [batch * heads, L, L]
  Tensor memory_mask = {};              ///< [L, S] or [batch * heads, L, S]
  Tensor tgt_key_padding_mask = {};     ///< [batch, L]
  Tensor memory_key_padding_mask = {};  ///< [batch, S]
  bool tgt_is_causal = false;           ///< target i sees targets 0 to i only; not beside a tgt_mask
};

/// Self-attention, attention to what an encoder gave, and a feed-forward network, each added to its input, as
/// PyTorch's, with its parameters' names (Vaswani et al., "Attention Is All You Need", 2017).
class TransformerDecoderLayer : public Movable<TransformerDecoderLayer> {
 public:
  /// Throws as the layers that it is made of.
  TransformerDecoderLayer(int64_t d_model, int64_t nhead, const TransformerDecoderLayerOptions& options = {});

  /// tgt is [L, batch, d_model], memory [S, batch, d_model], or with the batch first, or both without; the result is
  /// like tgt. Throws as attention does.
  Tensor forward(const Tensor& tgt, const Tensor& memory, const TransformerDecoderMasks& masks = {}) const;
  Tensor operator()(const Tensor& tgt, const Tensor& memory, const TransformerDecoderMasks& masks = {}) const;

  MultiheadAttention self_attn, multihead_attn;
  Linear linear1;
  Dropout dropout;
  Linear linear2;
  LayerNorm norm1, norm2, norm3;
  Dropout dropout1, dropout2, dropout3;

 private:
  TransformerActivation activation_;
  bool norm_first_;
};

/// So many of them, one after the other, named "layers.0", "layers.1", ...
class TransformerDecoder : public Movable<TransformerDecoder> {
 public:
  /// Throws Error unless num_layers is positive, and as the layers do.
  TransformerDecoder(int64_t num_layers, int64_t d_model, int64_t nhead,
                     const TransformerDecoderLayerOptions& options = {});
  /// ... and `norm`, a LayerNorm(d_model), of the last layer's result: "norm.weight" and "norm.bias".
  TransformerDecoder(int64_t num_layers, int64_t d_model, int64_t nhead, const TransformerDecoderLayerOptions& options,
                     LayerNorm norm);

  Tensor forward(const Tensor& tgt, const Tensor& memory, const TransformerDecoderMasks& masks = {}) const;
  Tensor operator()(const Tensor& tgt, const Tensor& memory, const TransformerDecoderMasks& masks = {}) const;

 private:
  std::unique_ptr<ModuleList> layers_;  // at one address wherever the decoder is moved
  std::unique_ptr<LayerNorm> norm_;     // null without
};

}  // namespace tendril::nn

TENDRIL_API_END
