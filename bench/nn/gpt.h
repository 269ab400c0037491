#pragma once

#include "tendril/autograd/ops/pointwise.h"
#include "tendril/nn/embedding.h"
#include "tendril/nn/layer_norm.h"
#include "tendril/nn/linear.h"
#include "tendril/nn/transformer.h"
#include "tendril/tensor/creation.h"

namespace tendril::bench {

using namespace tendril;

/// A transformer that predicts the next character (or word) of each place, as GPT-2: [batch, context] to
/// [batch * context, characters].
struct GPT : nn::Module {
  GPT(int64_t characters_, int64_t context, int64_t layers_, int64_t heads, int64_t width)
      : characters(characters_, width),
        positions(context, width),
        layers(layers_, width, heads,
               {.dim_feedforward = 4 * width,
                .dropout = 0,
                .activation = nn::TransformerActivation::gelu,
                .batch_first = true,
                .norm_first = true}),
        norm(width),
        head(width, characters_, {.bias = false}) {
    register_module("characters", characters);
    register_module("positions", positions);
    register_module("layers", layers);
    register_module("norm", norm);
    register_module("head", head);
  }
  Tensor operator()(const Tensor& ids) const {
    const Tensor x = characters(ids) + positions(arange(0, ids.size(1), 1, {.dtype = kInt64}));
    return head(norm(layers(x, {.is_causal = true}))).flatten(0, 1);
  }
  nn::Embedding characters, positions;
  nn::TransformerEncoder layers;
  nn::LayerNorm norm;
  nn::Linear head;
};

}  // namespace tendril::bench
