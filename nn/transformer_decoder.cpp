#include "tendril/nn/transformer_decoder.h"

#include <utility>

#include "tendril/autograd/ops/pointwise.h"
#include "tendril/nn/detail/transformer_options.h"

namespace tendril::nn {

TransformerDecoderLayer::TransformerDecoderLayer(int64_t d_model, int64_t nhead,
                                                 const TransformerDecoderLayerOptions& o)
    : self_attn(d_model, nhead, detail::attention_options(o)),
      multihead_attn(d_model, nhead, detail::attention_options(o)),
      linear1(d_model, o.dim_feedforward, detail::linear_options(o)),
      dropout(o.dropout, o.generator),
      linear2(o.dim_feedforward, d_model, detail::linear_options(o)),
      norm1(d_model, detail::norm_options(o)),
      norm2(d_model, detail::norm_options(o)),
      norm3(d_model, detail::norm_options(o)),
      dropout1(o.dropout, o.generator),
      dropout2(o.dropout, o.generator),
      dropout3(o.dropout, o.generator),
      activation_(o.activation),
      norm_first_(o.norm_first) {
  register_module("self_attn", self_attn);
  register_module("multihead_attn", multihead_attn);
  register_module("linear1", linear1);
  register_module("dropout", dropout);
  register_module("linear2", linear2);
  register_module("norm1", norm1);
  register_module("norm2", norm2);
  register_module("norm3", norm3);
  register_module("dropout1", dropout1);
  register_module("dropout2", dropout2);
  register_module("dropout3", dropout3);
}

Tensor TransformerDecoderLayer::forward(const Tensor& tgt, const Tensor& memory,
                                        const TransformerDecoderMasks& masks) const {
  const auto attend = [&](const Tensor& x) {
    return dropout1(self_attn(x, x, x,
                              {.key_padding_mask = masks.tgt_key_padding_mask,
                               .attn_mask = masks.tgt_mask,
                               .is_causal = masks.tgt_is_causal,
                               .need_weights = false})
                        .output);
  };
  const auto look = [&](const Tensor& x) {
    return dropout2(
        multihead_attn(
            x, memory, memory,
            {.key_padding_mask = masks.memory_key_padding_mask, .attn_mask = masks.memory_mask, .need_weights = false})
            .output);
  };
  const auto feed = [&](const Tensor& x) {
    const Tensor h = linear1(x);
    return dropout3(linear2(dropout(activation_ == TransformerActivation::relu ? h.relu() : h.gelu())));
  };
  if (norm_first_) {
    Tensor x = tgt + attend(norm1(tgt));
    x = x + look(norm2(x));
    return x + feed(norm3(x));
  }
  Tensor x = norm1(tgt + attend(tgt));
  x = norm2(x + look(x));
  return norm3(x + feed(x));
}

TransformerDecoder::TransformerDecoder(int64_t num_layers, int64_t d_model, int64_t nhead,
                                       const TransformerDecoderLayerOptions& options)
    : layers_(std::make_unique<ModuleList>()) {
  TENDRIL_CHECK(num_layers > 0, "TransformerDecoder: num_layers: got ", num_layers, ", expected a positive number");
  for (int64_t i = 0; i < num_layers; ++i) layers_->emplace<TransformerDecoderLayer>(d_model, nhead, options);
  register_module("layers", *layers_);
}

TransformerDecoder::TransformerDecoder(int64_t num_layers, int64_t d_model, int64_t nhead,
                                       const TransformerDecoderLayerOptions& options, LayerNorm norm)
    : TransformerDecoder(num_layers, d_model, nhead, options) {
  norm_ = std::make_unique<LayerNorm>(std::move(norm));
  register_module("norm", *norm_);
}

Tensor TransformerDecoder::forward(const Tensor& tgt, const Tensor& memory,
                                   const TransformerDecoderMasks& masks) const {
  Tensor x = tgt;
  for (std::size_t i = 0; i < layers_->size(); ++i) x = layers_->at<TransformerDecoderLayer>(i)(x, memory, masks);
  return norm_ ? (*norm_)(x) : x;
}

Tensor TransformerDecoderLayer::operator()(const Tensor& tgt, const Tensor& memory,
                                           const TransformerDecoderMasks& masks) const {
  return call(*this, tgt, memory, masks);
}
Tensor TransformerDecoder::operator()(const Tensor& tgt, const Tensor& memory,
                                      const TransformerDecoderMasks& masks) const {
  return call(*this, tgt, memory, masks);
}

}  // namespace tendril::nn
