#pragma once

#include "tendril/tensor/export.h"
#include "tendril/tensor/tensor.h"

TENDRIL_API_BEGIN

/// Reductions. `dims` may be negative and must be distinct; empty means all. Methods of Tensor say the rest.
namespace tendril {

/// Whether a tensor of `sizes` can be broadcast to `target`.
bool expands_to(const Dims& sizes, const Dims& target) noexcept;

/// The reverse of broadcasting: x summed over the dimensions that `sizes` lacks or has with size 1.
/// Throws ShapeError unless `sizes` can be broadcast to x's. Differentiable.
Tensor sum_to(const Tensor& x, const Dims& sizes);

#define TENDRIL_REDUCTION(name, doc, ...) \
  /** doc */                              \
  Tensor name(const Tensor& x, const Dims& dims = {}, Flag keepdim = false);
#include "tendril/tensor/reductions.def"

}  // namespace tendril

TENDRIL_API_END
