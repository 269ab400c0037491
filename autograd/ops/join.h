#pragma once

#include <vector>

#include "tendril/tensor/export.h"
#include "tendril/tensor/tensor.h"

TENDRIL_API_BEGIN

namespace tendril {

/// The tensors one after the other along `dim`: equal in all other sizes, on one device; dtypes promote. As in PyTorch
/// a tensor of shape [0] fits every other and adds nothing but its dtype. Throws Error for none, ShapeError for sizes
/// that differ.
Tensor cat(const std::vector<Tensor>& tensors, int64_t dim = 0);

/// Tensors of one shape along a new dimension `dim`.
Tensor stack(const std::vector<Tensor>& tensors, int64_t dim = 0);

}  // namespace tendril

TENDRIL_API_END
