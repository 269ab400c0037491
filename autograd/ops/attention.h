#pragma once

#include <optional>

#include "tendril/tensor/export.h"
#include "tendril/tensor/random.h"
#include "tendril/tensor/tensor.h"

TENDRIL_API_BEGIN

namespace tendril {

/// Of scaled_dot_product_attention.
struct AttentionOptions {
  /// Broadcasts to [..., L, S]: bool, where true takes part; or floating, added to the scores. Undefined: all take
  /// part.
  Tensor attn_mask = {};
  double dropout_p = 0;            ///< of the weights
  bool is_causal = false;          ///< query i sees keys 0 to i; not beside a mask
  std::optional<double> scale{};   ///< default 1 / sqrt(E)
  Generator* generator = nullptr;  ///< for dropout; null: the default one
};

/// What attention gives: the output, and the weights that it was made with.
struct AttentionResult {
  Tensor output;   ///< [..., L, Ev]
  Tensor weights;  ///< [..., L, S], after dropout

  template <class Self, class F>
  static void for_each_tensor(Self& self, const F& f) {
    f(self.output);
    f(self.weights);
  }
};

/// softmax(query key^T scale + mask) value, for query [..., L, E], key [..., S, E] and value [..., S, Ev] whose
/// first dimensions broadcast, of one floating dtype. (Vaswani et al., "Attention Is All You Need", 2017) A query that
/// sees no key gets zeros. Throws ShapeError for sizes that do not fit, DTypeError for dtypes that differ, Error for a
/// mask beside is_causal and a dropout outside of [0, 1].
///
/// One node, by blocks, which reads query, key and value some times and keeps of the scores a number a query, forward
/// and backward (FlashAttention); unless there is dropout, the mask requires a gradient, or the device has no kernel
/// for it: then, and under create_graph, it is made of other operations, and weights [..., L, S] are kept.
Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                    const AttentionOptions& options = {});
/// The same, and the weights.
AttentionResult attention_with_weights(const Tensor& query, const Tensor& key, const Tensor& value,
                                       const AttentionOptions& options = {});

}  // namespace tendril

TENDRIL_API_END
