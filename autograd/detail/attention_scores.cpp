#include "tendril/autograd/detail/attention_scores.h"

#include <cmath>

#include "tendril/autograd/detail/range.h"
#include "tendril/autograd/ops/matmul.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/tensor/raw.h"

namespace tendril::autograd::detail {

namespace {

/// [batch, rows, columns], whatever the first dimensions.
Tensor as_batch(const Tensor& x) {
  const int64_t rows = x.size(-2), columns = x.size(-1);
  int64_t batch = 1;
  for (int d = 0; d < x.dim() - 2; ++d) batch *= x.sizes()[d];
  return x.reshape({batch, rows, columns});
}

/// x [..., L, E] times the transpose of y [..., S, E]: finite where `hidden`.
Tensor products_with_seen(const Tensor& x, const Tensor& y, const Tensor& hidden) {
  if (!hidden.defined() || autograd::detail::all_finite(y)) {
    return as_batch(x).bmm(as_batch(y).transpose(1, 2)).reshape(with_last(x.sizes(), x.size(-2), y.size(-2)));
  }
  return (x.unsqueeze(-2) * y.unsqueeze(-3).masked_fill(hidden.unsqueeze(-1), 0)).sum({-1});
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

Tensor seen_by_causality(const Tensor& query, const Tensor& key) {
  const Device device = query.device();
  const Tensor row = raw::unsqueeze(raw::arange(0, query.size(-2), 1, kInt64, device), 1);
  return row.ge(raw::arange(0, key.size(-2), 1, kInt64, device));
}

}  // namespace

Dims with_last(const Dims& sizes, int64_t rows, int64_t columns) {
  Dims result = sizes;
  result[sizes.size() - 2] = rows;
  result[sizes.size() - 1] = columns;
  return result;
}

Tensor product_of_seen(const Tensor& x, const Tensor& y, const Tensor& hidden) {
  if (!hidden.defined() || autograd::detail::all_finite(y))
    return as_batch(x).bmm(as_batch(y)).reshape(with_last(x.sizes(), x.size(-2), y.size(-1)));
  return (x.unsqueeze(-1) * y.unsqueeze(-3).masked_fill(hidden.unsqueeze(-1), 0)).sum({-2});
}

AttentionScores::AttentionScores(const Tensor& query, const AttentionOptions& options)
    : scale(options.scale.value_or(1 / std::sqrt(static_cast<double>(query.size(-1))))),
      causal(options.is_causal),
      mask(options.attn_mask) {}

Tensor AttentionScores::hidden(const Tensor& query, const Tensor& key) const {
  if (!query.device().is_cpu()) return {};
  if (causal) return seen_by_causality(query, key).logical_not();
  if (!mask.defined()) return {};
  const Tensor known = mask.detach();
  return raw::expand(mask.dtype() == kBool ? known.logical_not() : known.eq(-HUGE_VAL),
                     with_last(query.sizes(), query.size(-2), key.size(-2)));
}

Tensor AttentionScores::weights(const Tensor& query, const Tensor& key, const Tensor& unseen) const {
  const Tensor scores = products_with_seen(query * scale, key, unseen);
  if (causal) return masked_softmax(scores, seen_by_causality(query, key));
  if (!mask.defined()) return scores.softmax(-1);
  return mask.dtype() == kBool ? masked_softmax(scores, mask) : added_softmax(scores, mask);
}

std::array<Tensor, 3> AttentionScores::gradients(const Tensor& g, const Tensor& query, const Tensor& key,
                                                 const Tensor& value, const std::array<bool, 3>& wanted) const {
  std::array<Tensor, 3> dx;
  const Tensor unseen = hidden(query, key), softmax = weights(query, key, unseen);
  if (wanted[2]) dx[2] = softmax.transpose(-2, -1).matmul(g);
  if (!wanted[0] && !wanted[1]) return dx;
  const Tensor d_weights = products_with_seen(g, value, unseen);
  const Tensor d = softmax * (d_weights - (d_weights * softmax).sum({-1}, true)) * scale;
  if (wanted[0]) dx[0] = product_of_seen(d, key, unseen);
  if (wanted[1]) dx[1] = d.transpose(-2, -1).matmul(query);
  return dx;
}

}  // namespace tendril::autograd::detail
