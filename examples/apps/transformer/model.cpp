#include "model.h"

#include <tendril/autograd/ops/pointwise.h>
#include <tendril/nn/init.h>
#include <tendril/tensor/creation.h>

namespace transformer {

GPT::GPT(std::int64_t characters, const Options& options)
    : characters_(characters, options.embedding),
      positions_(options.context, options.embedding),
      layers_(options.layers, options.embedding, options.heads,
              {.dim_feedforward = 4 * options.embedding,
               .dropout = options.dropout,
               .activation = nn::TransformerActivation::gelu,
               .batch_first = true,
               .norm_first = true}),
      norm_(options.embedding),
      head_(options.embedding, characters, {.bias = false}) {
  register_module("characters", characters_);
  register_module("positions", positions_);
  register_module("layers", layers_);
  register_module("norm", norm_);
  register_module("head", head_);
  // GPT-2's initial values: small at first.
  nn::init::normal_(characters_.weight, 0, 0.02);
  nn::init::normal_(positions_.weight, 0, 0.02);
  nn::init::normal_(head_.weight, 0, 0.02);
}

Tensor GPT::forward(const Tensor& ids) const {
  const Tensor positions = tendril::arange(0, ids.size(1), 1, {.dtype = tendril::kInt64, .device = ids.device()});
  const Tensor x = characters_(ids) + positions_(positions);
  return head_(norm_(layers_(x, {.is_causal = true})));
}

}  // namespace transformer
