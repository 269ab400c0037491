#pragma once

#include <tendril/nn/embedding.h>
#include <tendril/nn/layer_norm.h>
#include <tendril/nn/linear.h>
#include <tendril/nn/transformer.h>

#include "options.h"

namespace transformer {

namespace nn = tendril::nn;
using tendril::Tensor;

/// Maps characters to scores for the following characters: a GPT (Radford et al., "Language Models are Unsupervised
/// Multitask Learners", 2019) with layer normalisation at the input of each block.
class GPT : public nn::Module {
 public:
  GPT(std::int64_t characters, const Options& options);
  /// `ids` is int64 [batch, length] with length at most the context; the scores are [batch, length, characters].
  Tensor forward(const Tensor& ids) const;

 private:
  nn::Embedding characters_, positions_;
  nn::TransformerEncoder layers_;
  nn::LayerNorm norm_;
  nn::Linear head_;
};

}  // namespace transformer
