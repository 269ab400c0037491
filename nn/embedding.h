#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tendril/nn/module.h"
#include "tendril/tensor/export.h"
#include "tendril/tensor/random.h"
#include "tendril/tensor/tensor.h"

TENDRIL_API_BEGIN

namespace tendril::nn {

struct EmbeddingOptions {
  std::optional<int64_t> padding_idx = {};  ///< a row that starts as zeros and gets no gradient; negative: from the end
  DType dtype = kFloat32;
  Device device = default_device();
  Generator& generator = default_generator();  ///< for the initial values
};

/// A table of vectors, looked up by index: [...] of int64 or int32 to [..., embedding_dim].
/// Initial values as PyTorch's: normal with mean 0 and variance 1.
class Embedding : public Movable<Embedding> {
 public:
  /// Throws Error unless both counts are positive and the padding row, if any, is one of the table's.
  Embedding(int64_t num_embeddings, int64_t embedding_dim, const EmbeddingOptions& options = {});

  /// IndexError for an index outside of the table, DTypeError for another dtype.
  Tensor forward(const Tensor& index) const;
  Tensor operator()(const Tensor& index) const { return call(*this, index); }

  /// Draws the initial values anew.
  void reset_parameters(Generator& generator = default_generator());

  std::optional<int64_t> padding_idx() const noexcept { return padding_idx_; }  ///< counted from the front
  std::string extra_repr() const override;

  Tensor weight;  ///< [num_embeddings, embedding_dim]

 private:
  std::optional<int64_t> padding_idx_;
};

}  // namespace tendril::nn

TENDRIL_API_END
