#include "tendril/autograd/ops/attention.h"

#include <cmath>

#include "tendril/autograd/autocast.h"
#include "tendril/autograd/ops/dropout.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/tensor/creation.h"
#include "tendril/tensor/raw.h"

namespace tendril {

namespace {

constexpr const char* kOp = "scaled_dot_product_attention";

/// [batch, rows, columns], whatever the first dimensions.
Tensor as_batch(const Tensor& x) {
  const int64_t rows = x.size(-2), columns = x.size(-1);
  int64_t batch = 1;
  for (int d = 0; d < x.dim() - 2; ++d) batch *= x.sizes()[d];
  return x.reshape({batch, rows, columns});
}

Dims with_last(const Dims& sizes, int64_t rows, int64_t columns) {
  Dims result = sizes;
  result[sizes.size() - 2] = rows;
  result[sizes.size() - 1] = columns;
  return result;
}

void check(const Tensor& query, const Tensor& key, const Tensor& value, const AttentionOptions& options) {
  detail::check_defined(query, kOp, "query");
  detail::check_defined(key, kOp, "key");
  detail::check_defined(value, kOp, "value");
  TENDRIL_CHECK_AS(DTypeError,
                   is_floating(query.dtype()) && key.dtype() == query.dtype() && value.dtype() == query.dtype(), kOp,
                   ": query, key and value are ", query.dtype(), ", ", key.dtype(), " and ", value.dtype(),
                   ", expected one floating dtype");
  bool fits = query.dim() >= 2 && key.dim() == query.dim() && value.dim() == query.dim();
  for (int d = 0; fits && d < query.dim() - 2; ++d) {
    fits = key.sizes()[d] == query.sizes()[d] && value.sizes()[d] == query.sizes()[d];
  }
  fits = fits && key.size(-1) == query.size(-1) && value.size(-2) == key.size(-2);
  TENDRIL_CHECK_AS(ShapeError, fits, kOp, ": query, key and value have shapes ", query.sizes(), ", ", key.sizes(),
                   " and ", value.sizes(), ", expected [..., L, E], [..., S, E] and [..., S, Ev]");
  TENDRIL_CHECK(options.dropout_p >= 0 && options.dropout_p <= 1, kOp, ": dropout_p: got ", options.dropout_p,
                ", expected a probability in [0, 1]");
  const Tensor& mask = options.attn_mask;
  TENDRIL_CHECK(!options.is_causal || !mask.defined(), kOp, ": got both attn_mask and is_causal, expected one of them");
  if (!mask.defined()) return;
  TENDRIL_CHECK_AS(DTypeError, mask.dtype() == kBool || mask.dtype() == query.dtype(), kOp, ": attn_mask has dtype ",
                   mask.dtype(), ", expected bool or the query's, ", query.dtype());
  const Dims scores = with_last(query.sizes(), query.size(-2), key.size(-2));
  bool broadcasts = mask.dim() <= scores.size();
  for (int d = 0; broadcasts && d < mask.dim(); ++d) {
    const int64_t size = mask.sizes()[mask.dim() - 1 - d];
    broadcasts = size == 1 || size == scores[scores.size() - 1 - d];
  }
  TENDRIL_CHECK_AS(ShapeError, broadcasts, kOp, ": attn_mask has shape ", mask.sizes(),
                   ", expected one that broadcasts to [..., L, S], ", scores);
}

/// Weights of scores of which those outside of `seen` (bool) do not count; zeros where none does.
Tensor masked_softmax(const Tensor& scores, const Tensor& seen) {
  const Tensor none = seen.to(scores.dtype()).sum({-1}, true).eq(0);
  const Tensor hidden = seen.logical_or(none).logical_not();  // lines of no key are not all -infinity
  return scores.masked_fill(hidden, -HUGE_VAL).softmax(-1).masked_fill(none, 0);
}

/// Weights of scores to which a mask is added; zeros where it is -infinity for all keys.
Tensor added_softmax(const Tensor& scores, const Tensor& mask) {
  const Tensor none =
      raw::compare(Compare::ne, mask.dim() > 0 ? mask : raw::reshape(mask, {1}), -HUGE_VAL).any(-1, true).logical_not();
  if (mask.device().is_cpu() && !none.any().item<bool>()) return (scores + mask).softmax(-1);  // nearly always
  return (scores + mask).masked_fill(none, 0).softmax(-1).masked_fill(none, 0);
}

}  // namespace

AttentionResult attention_with_weights(const Tensor& query, const Tensor& key, const Tensor& value,
                                       const AttentionOptions& options) {
  if (autograd::detail::autocast_on()) [[unlikely]] {
    AttentionOptions low = options;
    if (options.attn_mask.defined() && options.attn_mask.dtype() != kBool)
      low.attn_mask = autograd::detail::lowered(options.attn_mask);
    const Tensor q = autograd::detail::lowered(query), k = autograd::detail::lowered(key),
                 v = autograd::detail::lowered(value);
    const autograd::detail::AutocastOff done;
    return attention_with_weights(q, k, v, low);
  }
  check(query, key, value, options);
  if (const DType dtype = query.dtype(), wide = computed_in(dtype); wide != dtype && query.device().is_cpu()) {
    AttentionOptions in_float = options;  // the results alone are rounded
    if (options.attn_mask.defined() && options.attn_mask.dtype() != kBool) {
      in_float.attn_mask = options.attn_mask.to(wide);
    }
    const auto [output, weights] = attention_with_weights(query.to(wide), key.to(wide), value.to(wide), in_float);
    return {output.to(dtype), weights.to(dtype)};
  }
  const int64_t length = query.size(-2), keys = key.size(-2);
  const double scale = options.scale.value_or(1 / std::sqrt(static_cast<double>(query.size(-1))));
  const Dims sizes = with_last(query.sizes(), length, keys);
  const Tensor scores = as_batch(query * scale).bmm(as_batch(key).transpose(1, 2)).reshape(sizes);
  Tensor weights;
  if (options.is_causal) {
    const Device device = query.device();
    const Tensor row = raw::unsqueeze(raw::arange(0, length, 1, kInt64, device), 1);
    weights = masked_softmax(scores, row.ge(raw::arange(0, keys, 1, kInt64, device)));
  } else if (!options.attn_mask.defined()) {
    weights = scores.softmax(-1);
  } else if (options.attn_mask.dtype() == kBool) {
    weights = masked_softmax(scores, options.attn_mask);
  } else {
    weights = added_softmax(scores, options.attn_mask);
  }
  if (options.dropout_p > 0) {
    weights = dropout(weights, options.dropout_p, options.generator ? *options.generator : default_generator());
  }
  const Tensor output = as_batch(weights).bmm(as_batch(value));
  return {output.reshape(with_last(query.sizes(), length, value.size(-1))), weights};
}

Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                    const AttentionOptions& options) {
  return attention_with_weights(query, key, value, options).output;
}

}  // namespace tendril
