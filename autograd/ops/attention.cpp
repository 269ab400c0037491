#include "tendril/autograd/ops/attention.h"

#include <cmath>
#include <vector>

#include "tendril/autograd/autocast.h"
#include "tendril/autograd/history.h"
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
  const auto check_device = [&](const Tensor& x, const char* name) {
    TENDRIL_CHECK(x.device() == query.device(), kOp, ": ", name, " is on ", x.device(), ", expected query's device ",
                  query.device());
  };
  check_device(key, "key");
  check_device(value, "value");
  TENDRIL_CHECK(options.dropout_p >= 0 && options.dropout_p <= 1, kOp, ": dropout_p: got ", options.dropout_p,
                ", expected a probability in [0, 1]");
  const Tensor& mask = options.attn_mask;
  TENDRIL_CHECK(!options.is_causal || !mask.defined(), kOp, ": got both attn_mask and is_causal, expected one of them");
  if (!mask.defined()) return;
  check_device(mask, "attn_mask");
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

/// What takes part in which score, of checked operands.
struct Scores {
  double scale;
  bool causal;
  Tensor mask;

  explicit Scores(const Tensor& query, const AttentionOptions& options)
      : scale(options.scale.value_or(1 / std::sqrt(static_cast<double>(query.size(-1))))),
        causal(options.is_causal),
        mask(options.attn_mask) {}

  /// The softmax of all scores, [..., L, S].
  Tensor weights(const Tensor& query, const Tensor& key) const {
    const int64_t length = query.size(-2), keys = key.size(-2);
    const Dims sizes = with_last(query.sizes(), length, keys);
    const Tensor scores = as_batch(query * scale).bmm(as_batch(key).transpose(1, 2)).reshape(sizes);
    if (causal) {
      const Device device = query.device();
      const Tensor row = raw::unsqueeze(raw::arange(0, length, 1, kInt64, device), 1);
      return masked_softmax(scores, row.ge(raw::arange(0, keys, 1, kInt64, device)));
    }
    if (!mask.defined()) return scores.softmax(-1);
    return mask.dtype() == kBool ? masked_softmax(scores, mask) : added_softmax(scores, mask);
  }
};

/// The scores as kernels take them, for operands whose first dimensions are one. Keeps what it points to.
class KernelMask {
 public:
  KernelMask(const Scores& scores, const Dims& sizes) : view_{.scale = scores.scale, .causal = scores.causal} {
    if (!scores.mask.defined()) return;
    mask_ = raw::expand(scores.mask, sizes);
    const int dims = sizes.size() - 2;
    int64_t count = 1;
    for (int d = 0; d < dims; ++d) count *= sizes[d];
    offsets_.resize(static_cast<std::size_t>(count));
    for (int64_t i = 0; i < count; ++i) {
      int64_t rest = i, offset = 0;
      for (int d = dims - 1; d >= 0; --d) {
        offset += rest % sizes[d] * mask_.strides()[d];
        rest /= sizes[d];
      }
      offsets_[static_cast<std::size_t>(i)] = offset;
    }
    view_.data = mask_.raw_data();
    view_.is_bool = mask_.dtype() == kBool;
    view_.offsets = offsets_.data();
    view_.row = mask_.stride(-2);
    view_.column = mask_.stride(-1);
  }
  KernelMask(const KernelMask&) = delete;
  KernelMask& operator=(const KernelMask&) = delete;

  const AttentionMask& view() const noexcept { return view_; }

 private:
  Tensor mask_;
  std::vector<int64_t> offsets_;
  AttentionMask view_;
};

/// Whether the device has a kernel for it, and with `training` one for the gradients.
bool is_served(const Tensor& query, const Tensor& key, const Tensor& value, const AttentionMask& mask, bool training) {
  const Kernels& table = kernels(query.device());
  if (!table.attention || query.numel() == 0 || key.numel() == 0 || value.numel() == 0) return false;
  const int64_t queries = query.size(-2), width = query.size(-1);
  return !table.attention_served || table.attention_served({query.dtype(), query.numel() / (queries * width), queries,
                                                            key.size(-2), width, value.size(-1)},
                                                           mask, training);
}

/// [batch, rows, columns] without gaps, for kernels.
Tensor block(const Tensor& x) {
  int64_t batch = 1;
  for (int d = 0; d < x.dim() - 2; ++d) batch *= x.sizes()[d];
  return raw::reshape(raw::contiguous(x), {batch, x.size(-2), x.size(-1)});
}

/// Of query, key and value. Keeps those, the result, and of the scores a number a query. Unrecorded, blocks of the
/// scores are computed again; recorded, all of them.
struct AttentionBackward : autograd::NodeOf<AttentionBackward, 3, 6> {
  static constexpr const char* kName = "AttentionBackward";
  AttentionOptions options;  // without its mask, which is saved

  Scores scores(const Tensor& query) const {
    Scores result(query, options);
    if (has_mask) result.mask = saved(5);
    return result;
  }
  bool has_mask = false;

  void backward(const Tensor& g, std::span<Tensor> dx) {
    const Tensor q = saved(0), k = saved(1), v = saved(2);
    const KernelMask mask(scores(q), with_last(q.sizes(), q.size(-2), k.size(-2)));
    if (autograd::grad_enabled() || !is_served(q, k, v, mask.view(), true)) {  // (settings may have changed)
      composite(g, q, k, v, dx);
    } else {
      fused(g, q, k, v, mask.view(), dx);
    }
  }

  void fused(const Tensor& g, const Tensor& q, const Tensor& k, const Tensor& v, const AttentionMask& mask,
             std::span<Tensor> dx) const {
    const Tensor parts[] = {raw::empty(q.sizes(), q.dtype(), q.device()), raw::empty(k.sizes(), k.dtype(), k.device()),
                            raw::empty(v.sizes(), v.dtype(), v.device())};
    kernels(q.device())
        .attention_backward(raw::view_of(block(parts[0])), raw::view_of(block(parts[1])), raw::view_of(block(parts[2])),
                            raw::view_of(block(g)), raw::view_of(block(saved(3))), raw::view_of(saved(4)),
                            raw::view_of(block(q)), raw::view_of(block(k)), raw::view_of(block(v)), mask);
    for (std::size_t i = 0; i < 3; ++i) dx[i] = parts[i];
  }

  void composite(const Tensor& g, const Tensor& q, const Tensor& k, const Tensor& v, std::span<Tensor> dx) const {
    const Scores how = scores(q);
    const Tensor weights = how.weights(q, k);
    if (needs_grad(2)) dx[2] = weights.transpose(-2, -1).matmul(g);
    if (!needs_grad(0) && !needs_grad(1)) return;
    const Tensor d_weights = g.matmul(v.transpose(-2, -1));
    const Tensor d = weights * (d_weights - (d_weights * weights).sum({-1}, true)) * how.scale;
    if (needs_grad(0)) dx[0] = d.matmul(k);
    if (needs_grad(1)) dx[1] = d.transpose(-2, -1).matmul(q);
  }
};

/// Checked, and of what can be fused. Undefined where the device's kernel does not serve it.
Tensor fused_attention(const Tensor& query, const Tensor& key, const Tensor& value, const AttentionOptions& options) {
  const KernelMask mask(Scores(query, options), with_last(query.sizes(), query.size(-2), key.size(-2)));
  const bool training = autograd::grad_enabled() && (autograd::requires_grad(query) || autograd::requires_grad(key) ||
                                                     autograd::requires_grad(value));
  if (!is_served(query, key, value, mask.view(), training)) return {};
  const Tensor q = block(query), k = block(key), v = block(value);
  Tensor out = raw::empty(with_last(query.sizes(), query.size(-2), value.size(-1)), query.dtype(), query.device()),
         log_sum = raw::empty({q.size(0), q.size(1)}, computed_in(query.dtype()), query.device());
  kernels(query.device())
      .attention(raw::view_of(block(out)), raw::view_of(log_sum), raw::view_of(q), raw::view_of(k), raw::view_of(v),
                 mask.view());
  if (auto* n = autograd::track<AttentionBackward>(out, query, key, value)) {
    n->save(0, query);
    n->save(1, key);
    n->save(2, value);
    n->save_output(3, out);
    n->save(4, log_sum);
    n->has_mask = options.attn_mask.defined();
    if (n->has_mask) n->save(5, options.attn_mask);
    n->options = options;
    n->options.attn_mask = {};
  }
  return out;
}

/// Whether a kernel may do it, which keeps nothing of the size of the scores.
bool can_be_fused(const AttentionOptions& options) {
  const bool masks_gradient =
      autograd::grad_enabled() && options.attn_mask.defined() && autograd::requires_grad(options.attn_mask);
  return options.dropout_p == 0 && !masks_gradient;
}

/// The operands as they are computed with.
struct Operands {
  Tensor query, key, value;
  AttentionOptions options;
};

/// Calls f with operands in the half type of an Autocast, or in float32 where that is what a half type is computed in.
template <class F>
bool converted(const Tensor& query, const Tensor& key, const Tensor& value, const AttentionOptions& options,
               const F& f) {
  const bool mask = options.attn_mask.defined() && options.attn_mask.dtype() != kBool;
  if (autograd::detail::autocast_on()) {
    AttentionOptions low = options;
    if (mask) low.attn_mask = autograd::detail::lowered(options.attn_mask);
    const Operands all{autograd::detail::lowered(query), autograd::detail::lowered(key),
                       autograd::detail::lowered(value), low};
    const autograd::detail::AutocastOff done;
    f(all);
    return true;
  }
  check(query, key, value, options);
  const DType wide = computed_in(query.dtype());
  if (wide == query.dtype() || !query.device().is_cpu()) return false;
  AttentionOptions in_float = options;  // the results alone are rounded
  if (mask) in_float.attn_mask = options.attn_mask.to(wide);
  f(Operands{query.to(wide), key.to(wide), value.to(wide), in_float});
  return true;
}

}  // namespace

AttentionResult attention_with_weights(const Tensor& query, const Tensor& key, const Tensor& value,
                                       const AttentionOptions& options) {
  AttentionResult result;
  const bool lowered = autograd::detail::autocast_on();
  if (converted(query, key, value, options, [&](const Operands& all) {
        result = attention_with_weights(all.query, all.key, all.value, all.options);
      })) {
    return lowered ? result : AttentionResult{result.output.to(query.dtype()), result.weights.to(query.dtype())};
  }
  Tensor weights = Scores(query, options).weights(query, key);
  if (options.dropout_p > 0) {
    weights = dropout(weights, options.dropout_p, options.generator ? *options.generator : default_generator());
  }
  const Tensor output = as_batch(weights).bmm(as_batch(value));
  return {output.reshape(with_last(query.sizes(), query.size(-2), value.size(-1))), weights};
}

Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                    const AttentionOptions& options) {
  Tensor result;
  const bool lowered = autograd::detail::autocast_on();
  if (converted(query, key, value, options, [&](const Operands& all) {
        result = scaled_dot_product_attention(all.query, all.key, all.value, all.options);
      })) {
    return lowered ? result : result.to(query.dtype());
  }
  const Tensor fused = can_be_fused(options) ? fused_attention(query, key, value, options) : Tensor();
  return fused.defined() ? fused : attention_with_weights(query, key, value, options).output;
}

}  // namespace tendril
