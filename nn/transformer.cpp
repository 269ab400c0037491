#include "tendril/nn/transformer.h"

#include <cmath>
#include <vector>

#include "tendril/autograd/ops/pointwise.h"
#include "tendril/nn/detail/transformer_options.h"
#include "tendril/tensor/raw.h"

namespace tendril::nn {

TransformerEncoderLayer::TransformerEncoderLayer(int64_t d_model, int64_t nhead,
                                                 const TransformerEncoderLayerOptions& o)
    : self_attn(d_model, nhead, detail::attention_options(o)),
      linear1(d_model, o.dim_feedforward, detail::linear_options(o)),
      dropout(o.dropout, o.generator),
      linear2(o.dim_feedforward, d_model, detail::linear_options(o)),
      norm1(d_model, detail::norm_options(o)),
      norm2(d_model, detail::norm_options(o)),
      dropout1(o.dropout, o.generator),
      dropout2(o.dropout, o.generator),
      activation_(o.activation),
      norm_first_(o.norm_first) {
  register_module("self_attn", self_attn);
  register_module("linear1", linear1);
  register_module("dropout", dropout);
  register_module("linear2", linear2);
  register_module("norm1", norm1);
  register_module("norm2", norm2);
  register_module("dropout1", dropout1);
  register_module("dropout2", dropout2);
}

Tensor TransformerEncoderLayer::forward(const Tensor& src, const TransformerMasks& masks) const {
  const auto attend = [&](const Tensor& x) {
    return dropout1(self_attn(x, x, x,
                              {.key_padding_mask = masks.src_key_padding_mask,
                               .attn_mask = masks.src_mask,
                               .is_causal = masks.is_causal,
                               .need_weights = false})
                        .output);
  };
  const auto feed = [&](const Tensor& x) {
    const Tensor h = linear1(x);
    return dropout2(linear2(dropout(activation_ == TransformerActivation::relu ? h.relu() : h.gelu())));
  };
  if (norm_first_) {
    const Tensor x = src + attend(norm1(src));
    return x + feed(norm2(x));
  }
  const Tensor x = norm1(src + attend(src));
  return norm2(x + feed(x));
}

TransformerEncoder::TransformerEncoder(int64_t num_layers, int64_t d_model, int64_t nhead,
                                       const TransformerEncoderLayerOptions& options)
    : layers_(std::make_unique<ModuleList>()) {
  TENDRIL_CHECK(num_layers > 0, "TransformerEncoder: num_layers: got ", num_layers, ", expected a positive number");
  for (int64_t i = 0; i < num_layers; ++i) layers_->emplace<TransformerEncoderLayer>(d_model, nhead, options);
  register_module("layers", *layers_);
}

TransformerEncoder::TransformerEncoder(int64_t num_layers, int64_t d_model, int64_t nhead,
                                       const TransformerEncoderLayerOptions& options, LayerNorm norm)
    : TransformerEncoder(num_layers, d_model, nhead, options) {
  norm_ = std::make_unique<LayerNorm>(std::move(norm));
  register_module("norm", *norm_);
}

Tensor TransformerEncoder::forward(const Tensor& src, const TransformerMasks& masks) const {
  Tensor x = src;
  for (std::size_t i = 0; i < layers_->size(); ++i) x = layers_->at<TransformerEncoderLayer>(i)(x, masks);
  return norm_ ? (*norm_)(x) : x;
}

PositionalEncoding::PositionalEncoding(int64_t d_model, const PositionalEncodingOptions& options)
    : dropout(options.dropout, options.generator), batch_first_(options.batch_first) {
  TENDRIL_CHECK(d_model > 0, "PositionalEncoding: d_model: got ", d_model, ", expected a positive number");
  TENDRIL_CHECK(options.max_len > 0, "PositionalEncoding: max_len: got ", options.max_len,
                ", expected a positive number");
  std::vector<double> values;
  for (int64_t position = 0; position < options.max_len; ++position) {
    for (int64_t i = 0; i < d_model; ++i) {
      const int64_t pair = i - i % 2;
      const double rate = std::exp(static_cast<double>(pair) * -std::log(10000.0) / static_cast<double>(d_model));
      const double angle = static_cast<double>(position) * rate;
      values.push_back(i % 2 == 0 ? std::sin(angle) : std::cos(angle));
    }
  }
  pe = raw::to(raw::cast(raw::from_data(values, {options.max_len, 1, d_model}), options.dtype), options.device);
  register_module("dropout", dropout);
  register_buffer("pe", pe);
}

Tensor PositionalEncoding::forward(const Tensor& x) const {
  TENDRIL_CHECK(x.defined(), "PositionalEncoding: x is an undefined tensor");
  const int64_t d_model = pe.size(2), max_len = pe.size(0);
  const int length = batch_first_ ? 1 : 0;
  TENDRIL_CHECK_AS(ShapeError, x.dim() == 3 && x.size(2) == d_model && x.size(length) <= max_len,
                   "PositionalEncoding: x has shape ", x.sizes(), ", expected ",
                   batch_first_ ? "[batch, length, " : "[length, batch, ", d_model, "] with a length of at most ",
                   max_len);
  const Tensor part = pe.narrow(0, 0, x.size(length));
  return dropout(x + (batch_first_ ? part.transpose(0, 1) : part));
}

Tensor generate_square_subsequent_mask(int64_t size, DType dtype, Device device) {
  TENDRIL_CHECK(size >= 0, "generate_square_subsequent_mask: size: got ", size, ", expected a number of 0 or more");
  const Tensor place = raw::arange(0, size, 1, kInt64, device);
  return raw::zeros({size, size}, dtype, device).masked_fill(raw::unsqueeze(place, 1).lt(place), -HUGE_VAL);
}

Tensor TransformerEncoderLayer::operator()(const Tensor& src, const TransformerMasks& masks) const {
  return call(*this, src, masks);
}
Tensor TransformerEncoder::operator()(const Tensor& src, const TransformerMasks& masks) const {
  return call(*this, src, masks);
}

}  // namespace tendril::nn
