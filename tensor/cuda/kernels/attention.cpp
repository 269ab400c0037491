#include <algorithm>

#include "tendril/tensor/cuda/cuda.h"
#include "tendril/tensor/cuda/cudnn/graph.h"
#include "tendril/tensor/cuda/math_mode.h"

/// Attention of half types as one kernel, where cuDNN has one; the rest is made of other operations.
namespace tendril::cuda {
namespace {

AttentionGraph::Strides strides_of(const View& x) { return {x.strides[0], x.strides[1], x.strides[2]}; }

AttentionGraph graph_of(const AttentionLayout& x, const AttentionLayout* gradients, const AttentionMask& mask) {
  const View &q = x.query, &k = x.key, &v = x.value;
  AttentionGraph graph{.dtype = q.dtype,
                       .batch = q.sizes[0],
                       .heads = q.sizes[1],
                       .queries = q.sizes[2],
                       .keys = k.sizes[2],
                       .width = q.sizes[3],
                       .value_width = v.sizes[3],
                       .causal = mask.causal,
                       .scale = mask.scale,
                       .backward = gradients != nullptr,
                       .query = strides_of(q),
                       .key = strides_of(k),
                       .value = strides_of(v),
                       .out = strides_of(x.out)};
  if (!gradients) return graph;
  graph.g = strides_of(gradients->out);
  graph.dquery = strides_of(gradients->query);
  graph.dkey = strides_of(gradients->key);
  graph.dvalue = strides_of(gradients->value);
  return graph;
}

}  // namespace

bool attention_takes(const View& x) {
  const auto bytes = static_cast<int64_t>(size_of(x.dtype));
  if (bytes != 2 || x.strides[3] != 1 || reinterpret_cast<uintptr_t>(x.data) % kAttentionBytes != 0) return false;
  for (int d = 0; d < 3; ++d) {
    if (x.sizes[d] > 1 && (x.strides[d] < x.sizes[3] || x.strides[d] * bytes % kAttentionBytes != 0)) return false;
  }
  return true;
}

bool attention_served(const AttentionLayout& operands, const AttentionLayout* gradients, const AttentionMask& mask) {
  constexpr int64_t kBatches = 65535;  // as many as a launch has blocks in that direction
  const View& q = operands.query;
  if (!cudnn_enabled() || size_of(q.dtype) != 2 || mask.data || q.sizes[0] * q.sizes[1] > kBatches) return false;
  return has_plan(graph_of(operands, nullptr, mask)) && (!gradients || has_plan(graph_of(operands, gradients, mask)));
}

void attention(const View& out, const View& log_sum, const View& query, const View& key, const View& value,
               const AttentionMask& mask) {
  attend(graph_of({query, key, value, out}, nullptr, mask), out, log_sum, query, key, value);
  detail::count_attention();
}

void attention_backward(const View& dquery, const View& dkey, const View& dvalue, const View& g, const View& out,
                        const View& log_sum, const View& query, const View& key, const View& value,
                        const AttentionMask& mask) {
  const AttentionLayout gradients{dquery, dkey, dvalue, g};
  attend_backward(graph_of({query, key, value, out}, &gradients, mask), dquery, dkey, dvalue, g, out, log_sum, query,
                  key, value);
}

}  // namespace tendril::cuda
