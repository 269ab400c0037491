#pragma once

#include <cstdint>
#include <optional>

#include "tendril/tensor/export.h"
#include "tendril/tensor/tensor.h"

TENDRIL_API_BEGIN

namespace tendril {

/// Rows of a table: `index` [...] of int64 or int32, `weight` [rows, width] of any dtype, result [..., width].
/// Backward adds the gradients of equal indices up in their row-major order, so that it is deterministic; the row
/// `padding_idx` (counted from the end if negative) gets none. Differentiable in `weight`, twice.
/// Throws IndexError, before anything is read, for an index outside of the table; DTypeError and ShapeError as above.
Tensor embedding(const Tensor& index, const Tensor& weight, std::optional<int64_t> padding_idx = {});

}  // namespace tendril

TENDRIL_API_END
