#include <algorithm>

#include "tendril/tensor/cuda/cuda.h"
#include "tendril/tensor/cuda/cudnn/graph.h"
#include "tendril/tensor/cuda/math_mode.h"

/// Attention of half types as one kernel, where cuDNN has one; the rest is made of other operations.
namespace tendril::cuda {
namespace {

AttentionGraph graph_of(const View& query, const View& key, const View& value, const AttentionMask& mask,
                        bool backward) {
  return {{query.dtype, query.sizes[0], query.sizes[1], key.sizes[1], query.sizes[2], value.sizes[2]},
          mask.causal,
          mask.scale,
          backward};
}

}  // namespace

bool attention_served(const AttentionShape& shape, const AttentionMask& mask, bool training) {
  constexpr int64_t kBatches = 65535;  // as many as a launch has blocks in that direction
  if (!cudnn_enabled() || size_of(shape.dtype) != 2 || mask.data || shape.batch > kBatches) return false;
  return has_plan({shape, mask.causal, mask.scale, false}) &&
         (!training || has_plan({shape, mask.causal, mask.scale, true}));
}

void attention(const View& out, const View& log_sum, const View& query, const View& key, const View& value,
               const AttentionMask& mask) {
  attend(graph_of(query, key, value, mask, false), out, log_sum, query, key, value);
  detail::count_attention();
}

void attention_backward(const View& dquery, const View& dkey, const View& dvalue, const View& g, const View& out,
                        const View& log_sum, const View& query, const View& key, const View& value,
                        const AttentionMask& mask) {
  attend_backward(graph_of(query, key, value, mask, true), dquery, dkey, dvalue, g, out, log_sum, query, key, value);
}

}  // namespace tendril::cuda
