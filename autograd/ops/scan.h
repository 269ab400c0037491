#pragma once

#include <tuple>

#include "tendril/tensor/export.h"
#include "tendril/tensor/tensor.h"

TENDRIL_API_BEGIN

/// Running results along a dimension: element i is made of elements 0 to i. Forward and backward take time and memory
/// that are linear in the number of elements.
namespace tendril {

/// The sums of the elements up to each along `dim`; of integers and bool: int64.
inline Tensor cumsum(const Tensor& x, int64_t dim) { return x.cumsum(dim); }
/// The products of the elements up to each along `dim`; of integers and bool: int64.
inline Tensor cumprod(const Tensor& x, int64_t dim) { return x.cumprod(dim); }
/// The largest of the elements up to each along `dim`, and their places (int64): of equal elements the last, NaN once
/// there is one.
inline std::tuple<Tensor, Tensor> cummax(const Tensor& x, int64_t dim) { return x.cummax(dim); }
/// The smallest of the elements up to each along `dim`, and their places, likewise.
inline std::tuple<Tensor, Tensor> cummin(const Tensor& x, int64_t dim) { return x.cummin(dim); }
/// log(cumsum(e^x)) along `dim`, without overflow. Floating.
inline Tensor logcumsumexp(const Tensor& x, int64_t dim) { return x.logcumsumexp(dim); }

}  // namespace tendril

TENDRIL_API_END
