#pragma once

#include <array>

#include "tendril/autograd/ops/attention.h"

/// Attention made of operations that can be recorded, with all scores at once.
namespace tendril::autograd::detail {

/// `sizes` with the last two replaced.
Dims with_last(const Dims& sizes, int64_t rows, int64_t columns);

/// x [..., L, S] times y [..., S, E]. Elements of x are 0 where `hidden` [..., L, S] is true. If y is not finite, these
/// are left out of the sums, because 0 times infinity is NaN. `hidden` may be undefined.
Tensor product_of_seen(const Tensor& x, const Tensor& y, const Tensor& hidden);

/// The mask and the scale of attention. Its functions expect checked operands.
struct AttentionScores {
  double scale;
  bool causal;
  Tensor mask;

  AttentionScores(const Tensor& query, const AttentionOptions& options);

  /// Pairs of query and key that do not count, bool [..., L, S]; undefined if all do, and on a device, where the
  /// elements that they hide must be finite.
  Tensor hidden(const Tensor& query, const Tensor& key) const;
  /// The softmax of all scores, [..., L, S]. `unseen` is hidden(query, key).
  Tensor weights(const Tensor& query, const Tensor& key, const Tensor& unseen) const;
  /// Gradients of query, key and value by that of the result; those that are not `wanted` may stay undefined.
  std::array<Tensor, 3> gradients(const Tensor& g, const Tensor& query, const Tensor& key, const Tensor& value,
                                  const std::array<bool, 3>& wanted) const;
};

}  // namespace tendril::autograd::detail
