#include "tendril/autograd/ops/attention.h"
#include "tendril/autograd/detail/self_attention.h"

#include <cmath>

#include "tendril/autograd/detail/self_attention.h"
#include "tendril/tensor/raw.h"
#include "tests/autograd/samples/samples.h"

namespace tendril::samples {

std::vector<OpSample> attention_samples() {
  const auto with = [](const AttentionOptions& options) {
    return [options](const std::vector<Tensor>& x) {
      return std::vector{scaled_dot_product_attention(x[0], x[1], x[2], options)};
    };
  };
  const auto masked = [](bool added) {
    return [added](const std::vector<Tensor>& x) {
      // Every third key is hidden from all, and the second query sees none.
      const int64_t length = x[0].size(-2), keys = x[1].size(-2);
      std::vector<bool> seen;
      for (int64_t i = 0; i < length * keys; ++i) seen.push_back(i / keys != 1 && i % keys % 3 != 2);
      Tensor mask = raw::to(raw::from_data(seen, {length, keys}), x[0].device());
      if (added) {
        mask = raw::full({length, keys}, 0.5, x[0].dtype(), x[0].device()).masked_fill(mask.logical_not(), -HUGE_VAL);
      }
      return std::vector{scaled_dot_product_attention(x[0], x[1], x[2], {.attn_mask = mask, .scale = 0.7})};
    };
  };
  const std::vector<std::vector<Dims>> shapes = {
      {{2, 2, 3}, {2, 3, 3}, {2, 3, 2}}, {{1, 2, 1, 2}, {1, 2, 2, 2}, {1, 2, 2, 1}}, {{3, 1}, {1, 1}, {1, 2}}};
  return {{"scaled_dot_product_attention", with({}), shapes},
          {"scaled_dot_product_attention, causal", with({.is_causal = true}), shapes},
          {"scaled_dot_product_attention, masked", masked(false), shapes},
          {"scaled_dot_product_attention, with a mask that is added", masked(true), shapes},
          {"scaled_dot_product_attention, of one tensor",
           [](const std::vector<Tensor>& x) { return std::vector{detail::self_attention(x[0], {.is_causal = true})}; },
           {{{2, 3, 3, 2, 2}}, {{1, 2, 3, 1, 2}}, {{1, 1, 3, 2, 1}}}}};
}

}  // namespace tendril::samples
