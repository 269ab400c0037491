#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tendril/nn/attention.h"
#include "tendril/nn/dropout.h"
#include "tendril/nn/layer_norm.h"
#include "tendril/nn/linear.h"
#include "tendril/nn/module.h"
#include "tendril/nn/sequential.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::nn {

/// Of the feed-forward part.
enum class TransformerActivation : uint8_t {
  relu,  ///< max(x, 0)
  gelu,  ///< exact, by the error function
};

struct TransformerEncoderLayerOptions {
  int64_t dim_feedforward = 2048;  ///< its width
  double dropout = 0.1;
  TransformerActivation activation = TransformerActivation::relu;  ///< of the feed-forward network
  double layer_norm_eps = 1e-5;                                    ///< the LayerNorms' eps
  bool batch_first = false;
  bool norm_first = false;  ///< normalises before attention and feed-forward, not after
  bool bias = true;
  DType dtype = kFloat32;
  Device device = default_device();
  Generator& generator = default_generator();  ///< for the initial values, and for dropout: must outlive the module
};

/// Masks as MultiheadAttention's.
struct TransformerMasks {
  Tensor src_mask = {};              ///< [L, L] or [batch * heads, L, L]
  Tensor src_key_padding_mask = {};  ///< [batch, L]
  bool is_causal = false;            ///< no position sees a later one
};

/// Self-attention and a feed-forward network, each added to its input and normalised, with PyTorch's names.
/// (Vaswani et al., "Attention Is All You Need", 2017)
class TransformerEncoderLayer : public Movable<TransformerEncoderLayer> {
 public:
  /// Throws as the layers that it is made of.
  TransformerEncoderLayer(int64_t d_model, int64_t nhead, const TransformerEncoderLayerOptions& options = {});

  /// src is [length, batch, d_model], or with the batch first, or without; so is the result.
  Tensor forward(const Tensor& src, const TransformerMasks& masks = {}) const;
  Tensor operator()(const Tensor& src, const TransformerMasks& masks = {}) const;

  MultiheadAttention self_attn;
  Linear linear1;
  Dropout dropout;
  Linear linear2;
  LayerNorm norm1, norm2;
  Dropout dropout1, dropout2;

 private:
  TransformerActivation activation_;
  bool norm_first_;
};

/// TransformerEncoderLayers one after the other, "layers.0", "layers.1", ..., each with initial values of its own
/// (PyTorch copies those of the first).
class TransformerEncoder : public Movable<TransformerEncoder> {
 public:
  /// Throws Error unless num_layers is positive, and as the layers do.
  TransformerEncoder(int64_t num_layers, int64_t d_model, int64_t nhead,
                     const TransformerEncoderLayerOptions& options = {});
  /// ... and `norm`, a LayerNorm(d_model), of the last layer's result: with norm_first nothing else normalises it. Its
  /// parameters are "norm.weight" and "norm.bias".
  TransformerEncoder(int64_t num_layers, int64_t d_model, int64_t nhead, const TransformerEncoderLayerOptions& options,
                     LayerNorm norm);

  Tensor forward(const Tensor& src, const TransformerMasks& masks = {}) const;
  Tensor operator()(const Tensor& src, const TransformerMasks& masks = {}) const;

 private:
  std::unique_ptr<ModuleList> layers_;  // at one address wherever the encoder is moved
  std::unique_ptr<LayerNorm> norm_;     // null without
};

struct PositionalEncodingOptions {
  double dropout = 0.1;
  int64_t max_len = 5000;  ///< the longest sequence
  bool batch_first = false;
  DType dtype = kFloat32;
  Device device = default_device();
  Generator& generator = default_generator();  ///< for dropout: must outlive the module
};

/// x plus sines and cosines of each position, as PyTorch's word_language_model has it (Vaswani et al., section 3.5):
/// pe[p, 2 i] = sin(p / 10000^(2 i / d)), pe[p, 2 i + 1] = cos of the same; then dropout.
class PositionalEncoding : public Movable<PositionalEncoding> {
 public:
  /// Throws Error unless d_model and max_len are positive and dropout is in [0, 1].
  explicit PositionalEncoding(int64_t d_model, const PositionalEncodingOptions& options = {});

  /// x is [length, batch, d_model], or with the batch first; ShapeError for other sizes and lengths above max_len.
  Tensor forward(const Tensor& x) const;
  Tensor operator()(const Tensor& x) const { return call(*this, x); }

  Dropout dropout;
  Tensor pe;  ///< buffer, [max_len, 1, d_model]

 private:
  bool batch_first_;
};

/// [size, size], 0 on and below the diagonal and -infinity above: added to scores, no position sees a later one.
Tensor generate_square_subsequent_mask(int64_t size, DType dtype = kFloat32, Device device = default_device());

}  // namespace tendril::nn

TENDRIL_API_END
