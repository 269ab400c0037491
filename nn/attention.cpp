#include "tendril/nn/attention.h"

#include <cmath>
#include <sstream>

#include "tendril/autograd/autocast.h"
#include "tendril/autograd/detail/self_attention.h"
#include "tendril/autograd/ops/matmul.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/nn/init.h"
#include "tendril/tensor/raw.h"

namespace tendril::nn {

namespace {

constexpr const char* kOp = "MultiheadAttention";

/// What is added to the scores: a bool mask's true is -infinity.
Tensor added(const Tensor& mask, DType dtype) {
  if (mask.dtype() != kBool) return mask;
  return raw::zeros(mask.sizes(), dtype, mask.device()).masked_fill(mask, -HUGE_VAL);
}

void check_mask(const char* name, const Tensor& mask, bool fits, const Tensor& query, const char* expected) {
  if (!mask.defined()) return;
  TENDRIL_CHECK_AS(DTypeError, mask.dtype() == kBool || mask.dtype() == query.dtype(), kOp, ": ", name, " has dtype ",
                   mask.dtype(), ", expected bool or the query's, ", query.dtype());
  TENDRIL_CHECK_AS(ShapeError, fits, kOp, ": ", name, " has shape ", mask.sizes(), ", expected ", expected);
}

}  // namespace

MultiheadAttention::MultiheadAttention(int64_t embed_dim, int64_t num_heads, const MultiheadAttentionOptions& options)
    : out_proj(
          embed_dim, embed_dim,
          {.bias = options.bias, .dtype = options.dtype, .device = options.device, .generator = options.generator}),
      embed_dim_(embed_dim),
      heads_(num_heads),
      dropout_(options.dropout),
      batch_first_(options.batch_first),
      generator_(&options.generator) {
  TENDRIL_CHECK(num_heads > 0 && embed_dim % num_heads == 0, kOp, ": num_heads: got ", num_heads,
                ", expected a positive divisor of embed_dim, ", embed_dim);
  TENDRIL_CHECK(dropout_ >= 0 && dropout_ <= 1, kOp, ": dropout: got ", dropout_, ", expected a probability in [0, 1]");
  in_proj_weight = raw::empty({3 * embed_dim, embed_dim}, options.dtype, options.device);
  register_parameter("in_proj_weight", in_proj_weight);
  if (options.bias) {
    in_proj_bias = raw::empty({3 * embed_dim}, options.dtype, options.device);
    register_parameter("in_proj_bias", in_proj_bias);
  }
  register_module("out_proj", out_proj);
  reset_parameters(options.generator);
}

void MultiheadAttention::reset_parameters(Generator& generator) {
  init::xavier_uniform_(in_proj_weight, 1, generator);
  out_proj.reset_parameters(generator);
  if (!in_proj_bias.defined()) return;
  init::zeros_(in_proj_bias);
  init::zeros_(out_proj.bias);
}

AttentionResult MultiheadAttention::forward(const Tensor& query, const Tensor& key, const Tensor& value,
                                            const MultiheadAttentionMasks& masks) const {
  for (const auto& [name, x] : {std::pair{"query", &query}, std::pair{"key", &key}, std::pair{"value", &value}}) {
    TENDRIL_CHECK(x->defined(), kOp, ": ", name, " is an undefined tensor");
    TENDRIL_CHECK_AS(ShapeError,
                     (x->dim() == 2 || x->dim() == 3) && x->dim() == query.dim() && x->size(-1) == embed_dim_, kOp,
                     ": ", name, " has shape ", x->sizes(), ", expected ",
                     batch_first_ ? "[batch, length, " : "[length, batch, ", embed_dim_, "], or all without a batch");
    TENDRIL_CHECK_AS(DTypeError, autograd::detail::autocast_on() || x->dtype() == in_proj_weight.dtype(), kOp, ": ",
                     name, " is ", x->dtype(), ", the parameters are ", in_proj_weight.dtype());
  }
  const bool batched = query.dim() == 3;
  const auto first = [&](const Tensor& x) { return !batched ? x.unsqueeze(0) : batch_first_ ? x : x.transpose(0, 1); };
  const Tensor q = first(query), k = first(key), v = first(value);  // [batch, length, E]
  const int64_t batch = q.size(0), length = q.size(1), keys = k.size(1), width = embed_dim_ / heads_;
  TENDRIL_CHECK_AS(ShapeError, k.size(0) == batch && v.size(0) == batch && v.size(1) == keys, kOp,
                   ": query, key and value have shapes ", query.sizes(), ", ", key.sizes(), " and ", value.sizes(),
                   ", expected one batch and as many values as keys");
  const Tensor &padding = masks.key_padding_mask, &attn = masks.attn_mask;
  check_mask("key_padding_mask", padding,
             padding.defined() && padding.sizes() == (batched ? Dims{batch, keys} : Dims{keys}), query,
             "[batch, keys], or [keys] without a batch");
  check_mask(
      "attn_mask", attn,
      attn.defined() && (attn.sizes() == Dims{length, keys} || attn.sizes() == Dims{batch * heads_, length, keys}),
      query, "[length, keys] or [batch * heads, length, keys]");
  TENDRIL_CHECK(!masks.is_causal || !attn.defined(), kOp, ": got both attn_mask and is_causal, expected one of them");

  const auto projected = [&](const Tensor& x, int64_t part) {  // [batch, heads, length, E / heads]
    const Tensor weight = in_proj_weight.narrow(0, part * embed_dim_, embed_dim_);
    const Tensor bias = in_proj_bias.defined() ? in_proj_bias.narrow(0, part * embed_dim_, embed_dim_) : in_proj_bias;
    return linear(x, weight, bias).reshape({batch, x.size(1), heads_, width}).transpose(1, 2);
  };
  AttentionOptions options;
  options.dropout_p = is_training() ? dropout_ : 0;
  options.generator = generator_;
  options.is_causal = masks.is_causal && !padding.defined();
  if (attn.defined()) {
    const Tensor mask = added(attn, q.dtype());
    options.attn_mask = mask.dim() == 3 ? mask.reshape({batch, heads_, length, keys}) : mask;
  }
  if (padding.defined()) {
    const Tensor mask = added(padding, q.dtype()).reshape({batch, 1, 1, keys});
    Tensor others = options.attn_mask;
    if (masks.is_causal) {
      const Tensor row = raw::unsqueeze(raw::arange(0, length, 1, kInt64, q.device()), 1);
      others = added(row.lt(raw::arange(0, keys, 1, kInt64, q.device())), q.dtype());
    }
    options.attn_mask = others.defined() ? others + mask : mask;
  }
  AttentionResult heads;
  if (query.is_same(key) && key.is_same(value)) {  // one product for all three
    const Tensor all = linear(q, in_proj_weight, in_proj_bias).reshape({batch, length, 3, heads_, width});
    if (masks.need_weights) {
      const auto part = [&](int64_t i) { return all.select(2, i).transpose(1, 2); };
      heads = attention_with_weights(part(0), part(1), part(2), options);
    } else {
      heads.output = tendril::detail::self_attention(all, options);
    }
  } else {
    const Tensor parts[] = {projected(q, 0), projected(k, 1), projected(v, 2)};
    if (masks.need_weights) {
      heads = attention_with_weights(parts[0], parts[1], parts[2], options);
    } else {
      heads.output = scaled_dot_product_attention(parts[0], parts[1], parts[2], options);
    }
  }
  Tensor output = out_proj(heads.output.transpose(1, 2).reshape({batch, length, embed_dim_}));
  output = !batched ? output.squeeze(0) : batch_first_ ? output : output.transpose(0, 1);
  if (!masks.need_weights) return {output, {}};
  const Tensor weights = masks.average_attn_weights ? heads.weights.mean({1}) : heads.weights;
  return {output, batched ? weights : weights.squeeze(0)};
}

AttentionResult MultiheadAttention::operator()(const Tensor& query, const Tensor& key, const Tensor& value,
                                               const MultiheadAttentionMasks& masks) const {
  return call(*this, query, key, value, masks);
}

std::string MultiheadAttention::extra_repr() const {
  std::ostringstream out;
  out << embed_dim_ << ", " << heads_;
  if (dropout_ != 0) out << ", dropout=" << dropout_;
  if (!in_proj_bias.defined()) out << ", bias=false";
  if (batch_first_) out << ", batch_first=true";
  return out.str();
}

}  // namespace tendril::nn
