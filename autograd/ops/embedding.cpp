#include "tendril/autograd/ops/embedding.h"

#include "tendril/autograd/history.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/tensor/drivers/by_index.h"
#include "tendril/tensor/raw.h"

namespace tendril {

namespace {

constexpr int64_t kNoPadding = -1;

/// saved(0): the indices, as one vector.
struct EmbeddingBackward : autograd::NodeOf<EmbeddingBackward, 1, 1> {
  static constexpr const char* kName = "EmbeddingBackward";
  Dims sizes;
  int64_t padding = kNoPadding;

  void backward(const Tensor& g, std::span<Tensor> dx) {
    const Tensor index = saved(0);
    Tensor rows = g.reshape({index.numel(), sizes[1]});
    if (padding != kNoPadding) rows = rows.masked_fill(index.eq(padding).unsqueeze(1), 0);
    const Tensor table = raw::zeros(sizes, g.dtype(), g.device());
    if (autograd::grad_enabled()) {
      dx[0] = table.index_add(0, index, rows);
    } else {
      drivers::index_add_(table, 0, index, rows);  // the same without a copy of the table
      dx[0] = table;
    }
  }
};

}  // namespace

Tensor embedding(const Tensor& index, const Tensor& weight, std::optional<int64_t> padding_idx) {
  TENDRIL_CHECK(index.defined(), "embedding: the index is undefined");
  TENDRIL_CHECK(weight.defined(), "embedding: the weight is undefined");
  TENDRIL_CHECK_AS(DTypeError, index.dtype() == kInt64 || index.dtype() == kInt32,
                   "embedding: the index must be int64 or int32, got ", index.dtype());
  TENDRIL_CHECK_AS(ShapeError, weight.dim() == 2, "embedding: the weight must be [rows, width], got shape ",
                   weight.sizes());
  TENDRIL_CHECK(index.device() == weight.device(), "embedding: the index is on ", index.device(), ", the weight on ",
                weight.device());
  const int64_t rows = weight.sizes()[0], width = weight.sizes()[1];
  TENDRIL_CHECK_AS(IndexError, !padding_idx || (*padding_idx >= -rows && *padding_idx < rows),
                   "embedding: padding_idx ", *padding_idx, " is out of range for a weight of ", rows, " rows");
  const Tensor flat = raw::reshape(raw::cast(raw::contiguous(index), kInt64), {index.numel()});

  Dims sizes = index.sizes();
  sizes.push_back(width);
  Tensor out = raw::view(drivers::index_select(weight, 0, flat, IndexUse::embedding), sizes);
  if (auto* n = autograd::track<EmbeddingBackward>(out, weight)) {
    n->save(0, flat);
    n->sizes = weight.sizes();
    if (padding_idx) n->padding = *padding_idx < 0 ? *padding_idx + rows : *padding_idx;
  }
  return out;
}

}  // namespace tendril
