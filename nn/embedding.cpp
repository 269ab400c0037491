#include "tendril/nn/embedding.h"

#include "tendril/autograd/ops/embedding.h"
#include "tendril/nn/init.h"
#include "tendril/tensor/raw.h"

namespace tendril::nn {

Embedding::Embedding(int64_t num_embeddings, int64_t embedding_dim, const EmbeddingOptions& options)
    : padding_idx_(options.padding_idx) {
  TENDRIL_CHECK(num_embeddings > 0, "Embedding: num_embeddings: got ", num_embeddings, ", expected a positive number");
  TENDRIL_CHECK(embedding_dim > 0, "Embedding: embedding_dim: got ", embedding_dim, ", expected a positive number");
  if (padding_idx_) {
    TENDRIL_CHECK_AS(IndexError, *padding_idx_ >= -num_embeddings && *padding_idx_ < num_embeddings,
                     "Embedding: padding_idx: got ", *padding_idx_, ", expected a row of ", num_embeddings);
    if (*padding_idx_ < 0) *padding_idx_ += num_embeddings;
  }
  weight = raw::empty({num_embeddings, embedding_dim}, options.dtype, options.device);
  register_parameter("weight", weight);
  reset_parameters(options.generator);
}

void Embedding::reset_parameters(Generator& generator) {
  init::normal_(weight, 0, 1, generator);
  if (padding_idx_) init::zeros_(raw::select(weight, 0, *padding_idx_));
}

Tensor Embedding::forward(const Tensor& index) const { return embedding(index, weight, padding_idx_); }

std::string Embedding::extra_repr() const {
  return std::to_string(weight.size(0)) + ", " + std::to_string(weight.size(1)) +
         (padding_idx_ ? ", padding_idx=" + std::to_string(*padding_idx_) : "");
}

}  // namespace tendril::nn
