#pragma once

#include <tuple>
#include <vector>

#include "tendril/tensor/export.h"
#include "tendril/tensor/tensor.h"

TENDRIL_API_BEGIN

/// Several operations in one call, under PyTorch's names. Operands broadcast and promote as in the pointwise table; all
/// are differentiable, twice.
namespace tendril {

/// x + alpha * y. For integers alpha is one too (DTypeError).
Tensor add(const Tensor& x, const Tensor& y, Scalar alpha);
/// x - alpha * y.
Tensor sub(const Tensor& x, const Tensor& y, Scalar alpha);
/// x + value * a * b. For integers value is one too (DTypeError).
Tensor addcmul(const Tensor& x, const Tensor& a, const Tensor& b, Scalar value = 1);
/// x + value * a / b. DTypeError where both a and b are integers, as in PyTorch.
Tensor addcdiv(const Tensor& x, const Tensor& a, const Tensor& b, Scalar value = 1);
/// x + weight * (end - x): x where weight is 0, end where it is 1. Floating (DTypeError).
Tensor lerp(const Tensor& x, const Tensor& end, const Tensor& weight);
Tensor lerp(const Tensor& x, const Tensor& end, double weight);

/// A matrix [m, k] by a vector [k]: [m].
Tensor mv(const Tensor& a, const Tensor& b);

/// The elements of x at places `index` of its row-major order: of index's shape. Negative ones count from the end.
/// IndexError for one outside, DTypeError unless index is int64.
Tensor take(const Tensor& x, const Tensor& index);

/// Variance and mean along `dims` (empty for all).
std::tuple<Tensor, Tensor> var_mean(const Tensor& x, const Dims& dims = {}, Flag unbiased = true, Flag keepdim = false);
/// Standard deviation and mean likewise.
std::tuple<Tensor, Tensor> std_mean(const Tensor& x, const Dims& dims = {}, Flag unbiased = true, Flag keepdim = false);

/// x / max(its p-norm along `dim`, eps).
Tensor normalize(const Tensor& x, double p = 2, int64_t dim = 1, double eps = 1e-12);

/// Side by side: along the second dimension, vectors along the first; a number counts as a vector.
Tensor hstack(const std::vector<Tensor>& tensors);
/// Below each other: along the first dimension; what has fewer than two counts as a row.
Tensor vstack(const std::vector<Tensor>& tensors);
/// Behind each other: along the third dimension; a matrix counts as [rows, columns, 1], a vector as [1, size, 1].
Tensor dstack(const std::vector<Tensor>& tensors);

}  // namespace tendril

TENDRIL_API_END
