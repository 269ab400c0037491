#include "tendril/autograd/ops/attention.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "tendril/autograd/autocast.h"
#include "tendril/autograd/detail/attention_scores.h"
#include "tendril/autograd/detail/heads_layout.h"
#include "tendril/autograd/detail/self_attention.h"
#include "tendril/autograd/history.h"
#include "tendril/autograd/ops/dropout.h"
#include "tendril/autograd/ops/join.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/tensor/creation.h"
#include "tendril/tensor/raw.h"

namespace tendril {

namespace {

using autograd::detail::AttentionScores, autograd::detail::with_last;

constexpr const char* kOp = "scaled_dot_product_attention";

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
                   " and ", value.sizes(),
                   ", expected [..., L, E], [..., S, E] and [..., S, Ev] whose first dimensions broadcast");
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

/// The scores as kernels take them, for operands whose first dimensions are one. Keeps what it points to.
class KernelMask {
 public:
  KernelMask(const AttentionScores& scores, const Dims& sizes) : view_{.scale = scores.scale, .causal = scores.causal} {
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

/// Attention of query, key and value by the device's kernels, where it has some. Borrows them and the mask.
class KernelCall {
 public:
  /// `training`: gradients will be asked for. `together`: the three are parts of one tensor [b, rows, 3, h, columns] of
  /// these sizes, and so are their gradients.
  KernelCall(const Tensor& query, const Tensor& key, const Tensor& value, const AttentionMask& mask, bool training,
             const Dims* together)
      : operands_{&query, &key, &value}, mask_(mask), training_(training) {
    if (query.numel() == 0 || key.numel() == 0 || value.numel() == 0) return;
    for (std::size_t i = 0; i < 3; ++i) layouts_[i] = detail::layout_of(*operands_[i]);
    const bool rows_outside = layouts_[0].rows_outside();
    Dims out = layouts_[0].sizes;
    out[3] = value.size(-1);
    out_ = detail::dense_layout(out, query.dtype(), rows_outside);
    for (std::size_t i = 0; training && i < 3; ++i) {
      gradients_[i] = together ? detail::layout_of_third(*together, query.dtype(), query.device())
                               : detail::dense_layout(layouts_[i].sizes, query.dtype(), layouts_[i].rows_outside());
    }
  }

  /// Whether there is a kernel, and in training one for the gradients.
  bool served() const {
    if (layouts_[0].sizes.empty() || !table()->attention) return false;
    if (!table()->attention_served) return true;
    const AttentionLayout operands = views_of(layouts_), gradients = views_of(gradients_);
    return table()->attention_served(operands, training_ ? &gradients : nullptr, mask_);
  }

  /// The result [b, h, rows, columns], and a number a query.
  std::pair<Tensor, Tensor> forward() const {
    const Tensor q = operand(0), k = operand(1), v = operand(2), out = detail::make(out_, q.device()),
                 log_sum = raw::empty({q.size(0), q.size(1), q.size(2)}, computed_in(q.dtype()), q.device());
    table()->attention(raw::view_of(out), raw::view_of(log_sum), raw::view_of(q), raw::view_of(k), raw::view_of(v),
                       mask_);
    return {out, log_sum};
  }

  /// A gradient of operand i, not written yet.
  Tensor gradient(std::size_t i) const {
    return raw::reshape(detail::make(gradients_[i], operands_[i]->device()), operands_[i]->sizes());
  }
  /// Writes the gradients of all three to `dx`, which lie as they may.
  void backward(const std::array<Tensor, 3>& dx, const Tensor& g, const Tensor& out, const Tensor& log_sum) const {
    std::array<Tensor, 3> written;
    std::array<bool, 3> in_place;
    for (std::size_t i = 0; i < 3; ++i) {
      in_place[i] = detail::lies_as(dx[i], gradients_[i]);
      written[i] = in_place[i] ? detail::laid_as(dx[i], gradients_[i]) : detail::make(gradients_[i], dx[i].device());
    }
    const Tensor q = operand(0), k = operand(1), v = operand(2), like_out = detail::laid_as(g, out_),
                 result = detail::laid_as(out, out_);
    table()->attention_backward(raw::view_of(written[0]), raw::view_of(written[1]), raw::view_of(written[2]),
                                raw::view_of(like_out), raw::view_of(result), raw::view_of(log_sum), raw::view_of(q),
                                raw::view_of(k), raw::view_of(v), mask_);
    for (std::size_t i = 0; i < 3; ++i) {
      if (!in_place[i]) raw::copy_(dx[i], raw::reshape(written[i], dx[i].sizes()));
    }
  }

 private:
  DeviceKernels table() const { return kernels(operands_[0]->device()); }
  Tensor operand(std::size_t i) const { return detail::laid_as(*operands_[i], layouts_[i]); }
  AttentionLayout views_of(const std::array<detail::HeadsLayout, 3>& layouts) const {
    return {layouts[0].view(), layouts[1].view(), layouts[2].view(), out_.view()};
  }

  std::array<const Tensor*, 3> operands_;
  const AttentionMask& mask_;
  bool training_;
  std::array<detail::HeadsLayout, 3> layouts_, gradients_;
  detail::HeadsLayout out_;
};

/// Keeps its operands, the result, and of the scores a number a query. Unrecorded, blocks of the scores are computed
/// again; recorded, all of them.
template <class Derived, int Inputs>
using AttentionNode = autograd::NodeOf<Derived, Inputs, Inputs + 3>;
template <class Derived, int Inputs>
struct FusedBackward : AttentionNode<Derived, Inputs> {
  AttentionOptions options;  // without its mask, which is saved
  bool has_mask = false;

  void keep(const Tensor& out, const Tensor& log_sum, const AttentionOptions& given) {
    this->save_output(Inputs, out);
    this->save(Inputs + 1, log_sum);
    has_mask = given.attn_mask.defined();
    if (has_mask) this->save(Inputs + 2, given.attn_mask);
    options = given;
    options.attn_mask = {};
  }
  AttentionScores scores(const Tensor& query) const {
    AttentionScores result(query, options);
    if (has_mask) result.mask = this->saved(Inputs + 2);
    return result;
  }
};

/// Of query, key and value.
struct AttentionBackward : FusedBackward<AttentionBackward, 3> {
  static constexpr const char* kName = "AttentionBackward";

  void backward(const Tensor& g, std::span<Tensor> dx) {
    const Tensor q = saved(0), k = saved(1), v = saved(2);
    const AttentionScores how = scores(q);
    const KernelMask mask(how, with_last(q.sizes(), q.size(-2), k.size(-2)));
    const KernelCall call(q, k, v, mask.view(), true, nullptr);
    std::array<Tensor, 3> result;
    if (autograd::grad_enabled() || !call.served()) {  // (settings may have changed)
      result = how.gradients(g, q, k, v, {needs_grad(0), needs_grad(1), needs_grad(2)});
    } else {
      for (std::size_t i = 0; i < 3; ++i) result[i] = call.gradient(i);
      call.backward(result, g, saved(3), saved(4));
    }
    std::move(result.begin(), result.end(), dx.begin());
  }
};

/// Query, key and value, [b, h, rows, columns], as parts of one tensor [b, rows, 3, h, columns].
std::array<Tensor, 3> parts_of(const Tensor& all) {
  const auto part = [&](int64_t i) { return all.select(2, i).transpose(1, 2); };
  return {part(0), part(1), part(2)};
}
std::array<Tensor, 3> raw_parts_of(const Tensor& all) {
  const auto part = [&](int64_t i) { return raw::transpose(raw::select(all, 2, i), 1, 2); };
  return {part(0), part(1), part(2)};
}

/// Of all three as one tensor, whose gradient the kernels write as a whole.
struct SelfAttentionBackward : FusedBackward<SelfAttentionBackward, 1> {
  static constexpr const char* kName = "SelfAttentionBackward";

  void backward(const Tensor& g, std::span<Tensor> dx) {
    const Tensor all = saved(0);
    const auto [q, k, v] = parts_of(all);
    const AttentionScores how = scores(q);
    const KernelMask mask(how, with_last(q.sizes(), q.size(-2), k.size(-2)));
    const Dims sizes = all.sizes();
    const KernelCall call(q, k, v, mask.view(), true, &sizes);
    if (autograd::grad_enabled() || !call.served()) {
      const auto [dq, dk, dv] = how.gradients(g, q, k, v, {true, true, true});
      dx[0] = stack({dq.transpose(1, 2), dk.transpose(1, 2), dv.transpose(1, 2)}, 2);
    } else {
      dx[0] = raw::empty(sizes, all.dtype(), all.device());
      call.backward(raw_parts_of(dx[0]), g, saved(1), saved(2));
    }
  }
};

template <class... Inputs>
bool to_be_recorded(const Inputs&... inputs) {
  return autograd::grad_enabled() && (autograd::requires_grad(inputs) || ...);
}

/// Checked, and of what can be fused. Undefined where the device's kernel does not serve it.
Tensor fused_attention(const Tensor& query, const Tensor& key, const Tensor& value, const AttentionOptions& options) {
  const KernelMask mask(AttentionScores(query, options), with_last(query.sizes(), query.size(-2), key.size(-2)));
  const KernelCall call(query, key, value, mask.view(), to_be_recorded(query, key, value), nullptr);
  if (!call.served()) return {};
  const auto [result, log_sum] = call.forward();
  Tensor out = raw::reshape(result, with_last(query.sizes(), query.size(-2), value.size(-1)));
  if (auto* n = autograd::track<AttentionBackward>(out, query, key, value)) {
    n->save(0, query);
    n->save(1, key);
    n->save(2, value);
    n->keep(out, log_sum, options);
  }
  return out;
}

/// The same of the three in one.
Tensor fused_self_attention(const Tensor& all, const AttentionOptions& options) {
  const auto [q, k, v] = raw_parts_of(all);
  const KernelMask mask(AttentionScores(q, options), with_last(q.sizes(), q.size(-2), k.size(-2)));
  const Dims sizes = all.sizes();
  const KernelCall call(q, k, v, mask.view(), to_be_recorded(all), &sizes);
  if (!call.served()) return {};
  const auto [out, log_sum] = call.forward();
  if (auto* n = autograd::track<SelfAttentionBackward>(out, all)) {
    n->save(0, all);
    n->keep(out, log_sum, options);
  }
  return out;
}

/// Whether a kernel may do it, which keeps nothing of the size of the scores.
bool can_be_fused(const AttentionOptions& options) {
  const bool masks_gradient =
      autograd::grad_enabled() && options.attn_mask.defined() && autograd::requires_grad(options.attn_mask);
  return options.dropout_p == 0 && !masks_gradient;
}

/// The first dimensions, all but two.
Dims leading(const Tensor& x) {
  Dims sizes;
  for (int d = 0; d < x.dim() - 2; ++d) sizes.push_back(x.sizes()[d]);
  return sizes;
}

/// Whether first dimensions differ, but broadcast; `check` refuses others.
bool to_be_broadcast(const Tensor& query, const Tensor& key, const Tensor& value) {
  if (!query.defined() || !key.defined() || !value.defined()) return false;
  const int dims = query.dim();
  bool same = key.dim() == dims && value.dim() == dims;
  for (int d = 0; same && d < dims - 2; ++d) {
    same = key.sizes()[d] == query.sizes()[d] && value.sizes()[d] == query.sizes()[d];
  }
  if (same || std::min({dims, key.dim(), value.dim()}) < 2) return false;
  const auto broadcasts = [](const Dims& a, const Dims& b) {
    for (int d = 1; d <= std::min(a.size(), b.size()); ++d) {
      const int64_t m = a[a.size() - d], n = b[b.size() - d];
      if (m != n && m != 1 && n != 1) return false;
    }
    return true;
  };
  const Dims q = leading(query), k = leading(key), v = leading(value);
  return broadcasts(q, k) && broadcasts(q, v) && broadcasts(k, v);
}

/// f of query, key and value with the same first dimensions.
template <class F>
auto broadcast(const Tensor& query, const Tensor& key, const Tensor& value, const F& f) {
  const Dims first = broadcast_shapes(broadcast_shapes(leading(query), leading(key), kOp), leading(value), kOp);
  const auto whole = [&](const Tensor& x) {
    Dims sizes = first;
    sizes.push_back(x.size(-2));
    sizes.push_back(x.size(-1));
    return x.expand(sizes);
  };
  return f(whole(query), whole(key), whole(value));
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
  if (to_be_broadcast(query, key, value)) [[unlikely]] {
    return broadcast(query, key, value, [&](const Tensor& q, const Tensor& k, const Tensor& v) {
      return attention_with_weights(q, k, v, options);
    });
  }
  AttentionResult result;
  const bool lowered = autograd::detail::autocast_on();
  if (converted(query, key, value, options, [&](const Operands& all) {
        result = attention_with_weights(all.query, all.key, all.value, all.options);
      })) {
    return lowered ? result : AttentionResult{result.output.to(query.dtype()), result.weights.to(query.dtype())};
  }
  const AttentionScores scores(query, options);
  const Tensor hidden = scores.hidden(query, key);
  Tensor weights = scores.weights(query, key, hidden);
  if (options.dropout_p > 0) {
    weights = dropout(weights, options.dropout_p, options.generator ? *options.generator : default_generator());
  }
  return {autograd::detail::product_of_seen(weights, value, hidden), weights};
}

Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                    const AttentionOptions& options) {
  if (to_be_broadcast(query, key, value)) [[unlikely]] {
    return broadcast(query, key, value, [&](const Tensor& q, const Tensor& k, const Tensor& v) {
      return scaled_dot_product_attention(q, k, v, options);
    });
  }
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

Tensor detail::self_attention(const Tensor& all, const AttentionOptions& options) {
  if (autograd::detail::autocast_on()) {
    AttentionOptions low = options;
    if (low.attn_mask.defined() && low.attn_mask.dtype() != kBool) {
      low.attn_mask = autograd::detail::lowered(low.attn_mask);
    }
    const Tensor lower = autograd::detail::lowered(all);
    const autograd::detail::AutocastOff done;
    return self_attention(lower, low);
  }
  if (all.device().is_cpu() && computed_in(all.dtype()) != all.dtype()) {
    const auto [q, k, v] = parts_of(all);
    return scaled_dot_product_attention(q, k, v, options);
  }
  const auto [q, k, v] = raw_parts_of(all);
  check(q, k, v, options);
  Tensor fused = can_be_fused(options) ? fused_self_attention(all, options) : Tensor();
  if (fused.defined()) return fused;
  const auto parts = parts_of(all);
  return attention_with_weights(parts[0], parts[1], parts[2], options).output;
}

}  // namespace tendril
