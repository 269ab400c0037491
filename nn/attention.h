#pragma once

#include <cstdint>
#include <string>

#include "tendril/autograd/ops/attention.h"
#include "tendril/nn/linear.h"
#include "tendril/nn/module.h"
#include "tendril/tensor/export.h"
#include "tendril/tensor/random.h"

TENDRIL_API_BEGIN

namespace tendril::nn {

struct MultiheadAttentionOptions {
  double dropout = 0;  ///< in training, of the weights
  bool bias = true;
  bool batch_first = false;  ///< [batch, length, features] in place of [length, batch, features]
  DType dtype = kFloat32;
  Device device = default_device();
  Generator& generator = default_generator();  ///< for the initial values, and for dropout: must outlive the module
};

/// Masks as PyTorch's nn.MultiheadAttention has them: bool, where true does NOT take part, or floating, which is added.
struct MultiheadAttentionMasks {
  Tensor key_padding_mask = {};      ///< [batch, S]: keys that are padding
  Tensor attn_mask = {};             ///< [L, S] or [batch * heads, L, S]
  bool is_causal = false;            ///< query i sees keys 0 to i only; not beside an attn_mask
  bool need_weights = true;          ///< return them, too
  bool average_attn_weights = true;  ///< over the heads
};

/// Several attentions beside each other, each over its share of the features (Vaswani et al., "Attention Is All You
/// Need", 2017), with PyTorch's parameters: in_proj_weight [3 E, E] (query, key, value below each other), in_proj_bias,
/// out_proj. Initial values as there: in_proj_weight by xavier_uniform_, biases 0, out_proj.weight as Linear's.
class MultiheadAttention : public Movable<MultiheadAttention> {
 public:
  /// Throws Error unless num_heads divides embed_dim, both positive, and dropout is in [0, 1].
  MultiheadAttention(int64_t embed_dim, int64_t num_heads, const MultiheadAttentionOptions& options = {});

  /// query is [L, batch, E], key and value [S, batch, E], or with the batch first; or all without a batch.
  /// The output is like query; the weights are [batch, L, S] (per head: [batch, heads, L, S]), undefined unless needed.
  /// ShapeError and DTypeError for what does not fit.
  AttentionResult forward(const Tensor& query, const Tensor& key, const Tensor& value,
                          const MultiheadAttentionMasks& masks = {}) const;
  AttentionResult operator()(const Tensor& query, const Tensor& key, const Tensor& value,
                             const MultiheadAttentionMasks& masks = {}) const;

  /// Draws the initial values anew.
  void reset_parameters(Generator& generator = default_generator());
  std::string extra_repr() const override;

  Tensor in_proj_weight, in_proj_bias;  ///< [3 E, E] and [3 E]: of queries, keys and values, one below the other
  Linear out_proj;                      ///< of the heads' results together

 private:
  int64_t embed_dim_, heads_;
  double dropout_;
  bool batch_first_;
  Generator* generator_;
};

}  // namespace tendril::nn

TENDRIL_API_END
