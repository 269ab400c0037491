#pragma once

#include <string_view>
#include <vector>

#include "tendril/autograd/ops/matmul.h"  // IWYU pragma: export (baddbmm)
#include "tendril/tensor/export.h"
#include "tendril/tensor/tensor.h"

TENDRIL_API_BEGIN

namespace tendril {

/// Sums of products, in Einstein's notation: `einsum("bij,bjk->bik", {a, b})`. Each letter (a-z, A-Z) is a dimension;
/// the result has those behind "->", and is summed over the others. Without "->" it has the letters that occur once, in
/// alphabetical order. "..." stands for dimensions that broadcast, in front of all letters that follow it. A letter
/// that one operand has twice means its diagonal. Dtypes must agree, as for matmul. Operands are multiplied from left
/// to right, two at a time, as batched matrix products. Differentiable. Error for text that cannot be read; ShapeError
/// for operands that do not fit it, or letters of several sizes.
Tensor einsum(std::string_view equation, const std::vector<Tensor>& operands);

/// All products of the elements of two vectors: [a.numel(), b.numel()].
Tensor outer(const Tensor& a, const Tensor& b);

}  // namespace tendril

TENDRIL_API_END
